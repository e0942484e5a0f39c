// A speaker who is heard live: the microphone's sound by OpenAI's protocol, into a room that others can read.

import { at } from "./common.js";

const RATE = 24000;
const PIECE = 4800; // samples of an event: 200 ms

function base64(samples) {
  const data = new DataView(new ArrayBuffer(2 * samples.length));
  samples.forEach((sample, place) => data.setInt16(2 * place, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return btoa(String.fromCharCode(...new Uint8Array(data.buffer)));
}

export class Speaker {
  // told: { room(room), text(delta, cut), ended(message) }
  constructor({ model, languages, transcript, language, key, told }) {
    const query = new URLSearchParams({ model, language, room: "new", languages: languages.join(","), transcript });
    if (!languages.length) query.delete("languages");
    const address = new URL(`v1/realtime/translations?${query}`, location.href);
    address.protocol = address.protocol.replace("http", "ws");
    this.told = told;
    this.waiting = [];
    this.socket = new WebSocket(address, ["realtime", ...(key ? [`openai-insecure-api-key.${encodeURIComponent(key)}`] : [])]);
    this.socket.addEventListener("message", ({ data }) => this.take(JSON.parse(data)));
    this.socket.addEventListener("close", () => this.end(this.closing ? "" : "The connection was lost."));
  }

  take(event) {
    if (event.type === "session.created") this.told.room(event.session.room);
    if (event.type === "session.output_transcript.delta") this.told.text(event.delta, event.cut);
    if (event.type === "error") this.end(event.error.message);
    if (event.type === "session.closed") this.end("");
  }

  async start() {
    this.stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    this.context = new AudioContext({ sampleRate: RATE });
    await this.context.audioWorklet.addModule("recorder.js");
    const recorder = new AudioWorkletNode(this.context, "recorder", { numberOfOutputs: 0 });
    recorder.port.onmessage = ({ data }) => this.send(data);
    this.context.createMediaStreamSource(this.stream).connect(recorder);
  }

  send(samples) {
    if (this.closing) return;
    this.waiting.push(...samples);
    while (this.socket.readyState === WebSocket.OPEN && this.waiting.length >= PIECE)
      this.tell({ type: "session.input_audio_buffer.append", audio: base64(this.waiting.splice(0, PIECE)) });
  }

  tell(event) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(event));
  }

  stop() {
    if (this.waiting.length) this.tell({ type: "session.input_audio_buffer.append", audio: base64(this.waiting) });
    this.closing = true;
    this.tell({ type: "session.close" });
    this.quiet();
  }

  quiet() {
    this.stream?.getTracks().forEach((track) => track.stop());
    if (this.context?.state !== "closed") this.context?.close();
  }

  end(message) {
    if (this.over) return;
    this.over = this.closing = true;
    this.quiet();
    this.socket.close();
    this.told.ended(message);
  }
}

export async function copy(text) {
  await navigator.clipboard.writeText(text);
  at("copied").textContent = "Copied.";
}

// The page of `dragoman serve`: texts by LibreTranslate's routes, recordings by OpenAI's, as streams.

import { at, choices, markCut, named } from "./common.js";
import { Speaker, copy } from "./live.js";

let key = "";
let models = [];
let languages = [];
let translating = null; // each can be stopped without the other
let writing = null;

class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const answer = await fetch(path, { ...options, headers });
  if (!answer.ok) {
    const body = await answer.json().catch(() => ({}));
    throw new Failed(answer.status, body.error?.message ?? body.error ?? `the server answered ${answer.status}`);
  }
  return answer;
}

function tell(error) {
  const told = error instanceof Failed || !(error instanceof TypeError) ? error.message : "The server cannot be reached.";
  at("problem").textContent = error.name === "AbortError" ? "" : told;
  at("problem").hidden = !at("problem").textContent;
}

// -- what the server has ------------------------------------------------------

async function enter() {
  tell(new Failed(0, ""));
  try {
    models = (await (await ask("v1/models")).json()).data;
    languages = await (await ask("languages")).json();
  } catch (error) {
    if (error.status === 401) at("door").hidden = false;
    if (error.status !== 401 || key) tell(error);
    return;
  }
  at("door").hidden = true;
  at("text").hidden = !languages.length;
  choices(at("source"), [["auto", "Detect the language"], ...languages.map(({ code }) => [code, named(code)])]);
  if (languages.length === 1) at("source").value = languages[0].code;
  showTargets();
  showTasks();
}

function showTargets() {
  const source = at("source").value;
  const known = languages.filter(({ code }) => source === "auto" || code === source).flatMap(({ targets }) => targets);
  choices(at("target"), [...new Set(known)].map((code) => [code, named(code)]));
}

const speechTasks = () =>
  models.flatMap(({ id, tasks }) => tasks.filter(({ reads }) => reads === "speech").map((task) => ({ model: id, ...task })));

function showTasks() {
  const tasks = speechTasks();
  at("speech").hidden = !tasks.length;
  const several = new Set(tasks.map(({ model }) => model)).size > 1;
  choices(at("task"), tasks.flatMap((task) => {
    const of = several ? ` (${task.model})` : "";
    if (task.writes === "transcript") return [[JSON.stringify([task.model, ""]), `What is said${of}`]];
    return task.target_languages.map((code) => [JSON.stringify([task.model, code]), `${named(code)}${of}`]);
  }));
  showSpoken();
  showLive();
}

function showSpoken() {
  if (!at("task").value) return;
  const [model] = JSON.parse(at("task").value);
  const codes = [...new Set(speechTasks().filter((task) => task.model === model).flatMap((task) => task.source_languages))];
  choices(at("spoken"), codes.map((code) => [code, named(code)]));
}

// -- texts --------------------------------------------------------------------

function missing(ends) {
  return ends ? `The end of ${ends === 1 ? "a text" : `${ends} texts`} is missing: there was no room for it.` : "";
}

async function translate() {
  translating?.abort();
  translating = new AbortController();
  at("said").textContent = "Translating…";
  at("copy").disabled = true;
  try {
    const body = JSON.stringify({ q: at("words").value, source: at("source").value, target: at("target").value, api_key: key });
    const headers = { "Content-Type": "application/json" };
    const answer = await (await ask("translate", { method: "POST", headers, body, signal: translating.signal })).json();
    at("translation").value = answer.translatedText;
    at("translation").lang = at("target").value;
    const found = answer.detectedLanguage?.language;
    const ends = missing(answer.cutOff?.length ?? 0);
    at("said").textContent = (found ? `Translated from ${named(found)}.` : "Translated.") + (ends && ` ${ends}`);
    at("copy").disabled = false;
    tell(new Failed(0, ""));
  } catch (error) {
    if (error.name !== "AbortError") at("said").textContent = "";
    tell(error);
  }
}

// -- recordings ---------------------------------------------------------------

let recording = null; // a file with a name
let cues = [];

function take(file) {
  recording = file;
  at("write").disabled = !file;
  if (!file) return;
  URL.revokeObjectURL(at("player").src);
  at("player").src = URL.createObjectURL(file);
  at("player").hidden = false;
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  const parts = [Math.floor(whole / 60) % 60, whole % 60].map((part) => String(part).padStart(2, "0"));
  return [...(whole >= 3600 ? [Math.floor(whole / 3600)] : []), ...parts].join(":");
}

function showCue({ start, end, text, cut }) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  const time = document.createElement("time");
  const words = document.createElement("span");
  [time.textContent, words.textContent] = [clock(start), text];
  if (cut) markCut(words);
  button.type = "button";
  button.append(time, words);
  button.addEventListener("click", () => {
    at("player").currentTime = start;
    at("player").play();
  });
  item.append(button);
  at("cues").append(item);
  cues.push({ start, end, item });
}

async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    waiting += value;
    const whole = waiting.split("\n\n");
    waiting = whole.pop();
    for (const event of whole) yield JSON.parse(event.slice(event.indexOf("data: ") + 6));
  }
}

function showProgress({ end, duration }, began) {
  const share = Math.min(1, end / duration);
  at("bar").value = share;
  const left = ((Date.now() - began) / 1000) * (1 / share - 1);
  at("left").textContent = share < 1 ? `${clock(end)} of ${clock(duration)}, ${clock(Math.ceil(left))} left` : "";
}

function offer(id, text, kind, ending) {
  URL.revokeObjectURL(at(id).href);
  at(id).href = URL.createObjectURL(new Blob([text], { type: kind }));
  at(id).download = recording.name.replace(/\.[^.]*$/, "") + ending;
}

async function write() {
  const [model, to] = JSON.parse(at("task").value);
  const form = new FormData();
  const fields = { model, language: at("spoken").value, stream: "true", ...(to && { to }), file: recording };
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  writing?.abort();
  writing = new AbortController();
  cues = [];
  at("cues").replaceChildren();
  at("cues").lang = to || at("spoken").value;
  at("bar").removeAttribute("value");
  at("left").textContent = "Sending the recording…";
  for (const [id, hidden] of [["work", false], ["stop", false], ["write", true], ["downloads", true]]) at(id).hidden = hidden;
  tell(new Failed(0, ""));
  try {
    const route = to ? "v1/audio/translations" : "v1/audio/transcriptions";
    const answer = await ask(route, { method: "POST", body: form, signal: writing.signal });
    const began = Date.now();
    let [done, cut] = [null, 0];
    for await (const event of eventsOf(answer.body)) {
      if (event.type === "error") throw new Failed(500, event.error.message);
      if (event.type === "transcript.text.done") done = event;
      if (event.type === "transcript.text.segment") {
        if (event.text) showCue(event);
        if (event.cut) cut += 1;
        showProgress(event, began);
      }
    }
    if (!done) throw new Failed(500, "The answer ended too early.");
    offer("srt", done.srt, "application/x-subrip", ".srt");
    offer("vtt", done.vtt, "text/vtt", ".vtt");
    offer("plain", `${done.text}\n`, "text/plain", ".txt");
    at("downloads").hidden = false;
    tell(new Failed(0, missing(cut)));
  } catch (error) {
    tell(error);
  }
  for (const [id, hidden] of [["work", true], ["stop", true], ["write", false]]) at(id).hidden = hidden;
}

// -- the microphone -----------------------------------------------------------

let microphone = null;

function wave(chunks, rate) {
  const samples = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * samples));
  const tag = (place, word) => [...word].forEach((sign, number) => view.setUint8(place + number, sign.charCodeAt(0)));
  tag(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples, true);
  tag(8, "WAVEfmt ");
  view.setUint32(16, 16, true); // PCM, one channel, 16 bits
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  tag(36, "data");
  view.setUint32(40, 2 * samples, true);
  let place = 44;
  for (const chunk of chunks)
    for (const sample of chunk) {
      view.setInt16(place, Math.max(-1, Math.min(1, sample)) * 32767, true);
      place += 2;
    }
  return new File([view], "microphone.wav", { type: "audio/wav" });
}

async function record() {
  if (microphone) {
    const { stream, context, chunks } = microphone;
    microphone = null;
    stream.getTracks().forEach((track) => track.stop());
    await context.close();
    at("microphone").textContent = "Record";
    take(wave(chunks, context.sampleRate));
    return;
  }
  try {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    const context = new AudioContext({ sampleRate: 16000 });
    await context.audioWorklet.addModule("recorder.js");
    const recorder = new AudioWorkletNode(context, "recorder", { numberOfOutputs: 0 });
    const chunks = [];
    recorder.port.onmessage = ({ data }) => chunks.push(data);
    context.createMediaStreamSource(stream).connect(recorder);
    microphone = { stream, context, chunks };
    at("microphone").textContent = "Stop recording";
  } catch (error) {
    tell(new Failed(0, `The microphone cannot be used: ${error.message}`));
  }
}

// -- live ---------------------------------------------------------------------

let speaker = null;

function showLive() {
  const tasks = speechTasks().filter(({ writes }) => writes === "translation");
  const found = [...new Set(tasks.map(({ model }) => model))];
  at("live").hidden = !found.length;
  choices(at("live-model"), found.map((name) => [name, name]));
  at("live-model").parentElement.hidden = found.length < 2;
  showLiveLanguages();
}

function showLiveLanguages() {
  const tasks = speechTasks().filter(({ model }) => model === at("live-model").value);
  if (!tasks.length) return;
  choices(at("live-spoken"), [...new Set(tasks.flatMap((task) => task.source_languages))].map((code) => [code, named(code)]));
  const boxes = tasks.flatMap((task) =>
    task.writes === "transcript" ? [["transcript", "What is said"]] : task.target_languages.map((code) => [code, named(code)]));
  at("live-languages").replaceChildren(at("live-languages").querySelector("legend"), ...boxes.map(([value, text], number) => {
    const label = document.createElement("label");
    const box = Object.assign(document.createElement("input"), { type: "checkbox", value, checked: !number });
    label.append(box, ` ${text}`);
    return label;
  }));
}

function ended(message) {
  speaker = null;
  at("speak").textContent = "Start speaking";
  at("live-state").textContent = message ? "" : "The room stays open for an hour.";
  if (message) tell(new Failed(0, message));
}

async function speak() {
  if (speaker) {
    at("live-state").textContent = "The last sentence is being written…";
    speaker.stop();
    return;
  }
  tell(new Failed(0, ""));
  const wanted = [...at("live-languages").querySelectorAll("input:checked")].map(({ value }) => value);
  const languages = wanted.filter((value) => value !== "transcript");
  if (!languages.length) return tell(new Failed(0, "Choose a language to translate into."));
  at("live-lines").textContent = "";
  at("live-lines").lang = languages[0];
  at("copied").textContent = "";
  const told = {
    room({ address }) {
      at("room").href = at("room").textContent = new URL(address, location.href).href;
      at("room-row").hidden = false;
      at("live-state").textContent = "Live";
    },
    text(delta, cut) {
      const words = document.createElement("span");
      words.append(delta);
      if (cut) markCut(words);
      at("live-lines").append(words);
      at("live-lines").scrollTop = at("live-lines").scrollHeight;
    },
    ended,
  };
  speaker = new Speaker({ model: at("live-model").value, languages, transcript: wanted.includes("transcript"), language: at("live-spoken").value, key, told });
  at("speak").textContent = "Stop speaking";
  at("live-state").textContent = "Connecting…";
  try {
    await speaker.start();
  } catch (error) {
    speaker.end(`The microphone cannot be used: ${error.message}`);
  }
}

// -- hands --------------------------------------------------------------------

function submitted(form, act) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act();
  });
}

submitted(at("door"), () => {
  key = at("key").value;
  enter();
});
submitted(at("text").querySelector("form"), translate);
submitted(at("speech").querySelector("form"), write);
submitted(at("live").querySelector("form"), speak);
at("live-model").addEventListener("change", showLiveLanguages);
at("copy-room").addEventListener("click", () => copy(at("room").href));
at("words").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("text").querySelector("form").requestSubmit();
});
at("source").addEventListener("change", showTargets);
at("task").addEventListener("change", showSpoken);
at("swap").addEventListener("click", () => {
  const [source, target] = [at("source").value, at("target").value];
  if (![...at("source").options].some(({ value }) => value === target)) return;
  at("source").value = target;
  showTargets();
  at("target").value = source === "auto" ? at("target").value : source;
  [at("words").value, at("translation").value] = [at("translation").value, at("words").value];
});
at("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(at("translation").value);
  at("said").textContent = "Copied.";
});
at("sound").addEventListener("change", () => take(at("sound").files[0]));
at("microphone").addEventListener("click", record);
at("stop").addEventListener("click", () => writing?.abort());
at("player").addEventListener("timeupdate", () => {
  const now = at("player").currentTime;
  for (const { start, end, item } of cues) {
    if (start <= now && now < end) item.setAttribute("aria-current", "true");
    else item.removeAttribute("aria-current");
  }
});
enter();

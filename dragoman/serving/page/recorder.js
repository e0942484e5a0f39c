// Hands on what a microphone hears, in the thread of the sound.
registerProcessor("recorder", class extends AudioWorkletProcessor {
  process([[channel]]) {
    if (channel) this.port.postMessage(channel.slice());
    return true;
  }
});

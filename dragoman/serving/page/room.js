// The page of a room: the lines of one language as they are written. An EventSource comes back by itself, to its place.

import { at, choices, markCut, named } from "./common.js";

const address = location.pathname.replace(/\/$/, "");
let source = null;
let lines = [];
let follows = true;

function failed(message) {
  at("problem").textContent = message;
  at("problem").hidden = !message;
}

function showLine({ line, text, cut }) {
  while (lines.length <= line) {
    const paragraph = document.createElement("p");
    lines.push(paragraph);
    at("lines").append(paragraph);
  }
  lines[line].append(text);
  if (cut) markCut(lines[line]);
  if (follows) window.scrollTo({ top: document.body.scrollHeight });
  else at("newest").hidden = false;
}

function read() {
  const track = at("track").value;
  source?.close();
  lines = [];
  at("lines").replaceChildren();
  at("lines").lang = at("track").selectedOptions[0].dataset.language;
  for (const [id, format] of [["srt", "srt"], ["vtt", "vtt"], ["plain", "text"]])
    at(id).href = `${address}/text?track=${encodeURIComponent(track)}&format=${format}`;
  at("downloads").hidden = false;
  source = new EventSource(`${address}/events?track=${encodeURIComponent(track)}`);
  source.addEventListener("text", ({ data }) => showLine(JSON.parse(data)));
  source.addEventListener("speaker", ({ data }) => {
    at("state").textContent = JSON.parse(data).speaking ? "Live" : "The speaker has left.";
  });
  source.addEventListener("open", () => failed(""));
  source.addEventListener("error", () => {
    const lost = source.readyState === EventSource.CLOSED;
    failed(lost ? "The room has been closed, or is full." : "The connection was lost; trying again…");
  });
}

async function enter() {
  try {
    const answer = await fetch(`${address}/languages`);
    if (!answer.ok) throw new Error("There is no such room, or it has been closed.");
    const { tracks } = await answer.json();
    choices(at("track"), tracks.map(({ name, language }) => [name, name === "transcript" ? `${named(language)} (spoken)` : named(language)]));
    [...at("track").options].forEach((option, number) => (option.dataset.language = tracks[number].language));
    const wanted = tracks.find(({ language }) => navigator.languages.some((one) => one.split("-")[0] === language));
    if (wanted) at("track").value = wanted.name;
    read();
  } catch (error) {
    failed(error instanceof TypeError ? "The server cannot be reached." : error.message);
  }
}

function resize(factor) {
  const size = Math.min(4, Math.max(0.5, (parseFloat(document.body.style.getPropertyValue("--size")) || 1) * factor));
  document.body.style.setProperty("--size", size);
}

at("track").addEventListener("change", read);
at("smaller").addEventListener("click", () => resize(1 / 1.2));
at("larger").addEventListener("click", () => resize(1.2));
at("newest").addEventListener("click", () => window.scrollTo({ top: document.body.scrollHeight }));
window.addEventListener("scroll", () => {
  follows = window.innerHeight + window.scrollY >= document.body.scrollHeight - 80;
  if (follows) at("newest").hidden = true;
});
enter();

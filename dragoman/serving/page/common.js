// What both pages use.

export const at = (id) => document.getElementById(id);
const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

export function named(code) {
  try {
    return names.of(code);
  } catch {
    return code; // one of a model's own
  }
}

// The style sheet puts a sign behind it.
export function markCut(element) {
  element.className = "cut";
  element.title = "The end is missing: there was no room for it.";
}

export function choices(select, pairs) {
  const before = select.value;
  select.replaceChildren(...pairs.map(([value, label]) => new Option(label, value)));
  if (pairs.some(([value]) => value === before)) select.value = before;
}

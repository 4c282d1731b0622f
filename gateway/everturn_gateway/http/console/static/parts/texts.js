// Texts in the language of whoever looks. English stands in the code; the other languages are one
// file each, by the English text, which the channels read too.

export const LANGUAGES = { de: "Deutsch", en: "English", es: "Español", fr: "Français", zh: "中文" };
const KEPT = "everturn language";
const baseOf = (tag) => tag.toLowerCase().split("-")[0];

function chosen() {
  try {
    return localStorage.getItem(KEPT) ?? "";
  } catch {
    return ""; // a browser that keeps nothing
  }
}

const wished = [chosen(), ...navigator.languages].filter((tag) => baseOf(tag) in LANGUAGES);
export const language = wished.length ? baseOf(wished[0]) : "en";
// With the country that the browser names: dates and numbers are written as people write them there.
export const locale = wished.find((tag) => baseOf(tag) === language && tag.includes("-")) ?? language;

// Who imports this module waits for the file, so a text may be looked up wherever code stands.
const table = language === "en" ? {} : await load();
// Made when it is first used.
export const lazily = (make) => {
  let made;
  return () => (made ??= make());
};
const rules = lazily(() => new Intl.PluralRules(language));
const numbers = lazily(() => new Intl.NumberFormat(locale));
document.documentElement.lang = language === "zh" ? "zh-Hans" : language;

async function load() {
  try {
    return await (await fetch(new URL(`../languages/${language}.json`, import.meta.url))).json();
  } catch {
    return {}; // the page is there, if in English
  }
}

export function choose(tag) {
  try {
    localStorage.setItem(KEPT, tag);
  } catch {
    // for this time the browser's language stays
  }
  location.reload();
}

// The first formatter takes a browser a tenth of a second, on a phone half a one: what is shown first
// is shown without times and commas, and drawn again when there are formatters.
let hasBegun = false;
let hasFormatters = false;
let redraw = () => {};

export const onFormatters = (work) => {
  redraw = work;
};

export function canFormat() {
  if (!hasBegun) {
    hasBegun = true;
    setTimeout(() => {
      hasFormatters = true;
      redraw();
    });
  }
  return hasFormatters;
}

const isPlain = (value) => Number.isInteger(value) && Math.abs(value) < 1000;
export const number = (value) => (isPlain(value) || !canFormat() ? String(value) : numbers().format(value));

// A text: t("Log out"), t("Copied {name}.", { name }). Numbers are written as people write them.
export const t = (text, values = {}) => filled(table[text] ?? text, values).join("");

// A text that depends on a number: tn("{count} turn", "{count} turns", count). A language's forms
// stand by the second.
export function tn(one, other, count, values = {}) {
  const forms = table[other] ?? { one, other };
  return filled(forms[rules().select(count)] ?? forms.other, { count, ...values }).join("");
}

// A text around pieces of a template: rich("Begin with {command}", { command: html`<code>...` }).
export const rich = (text, values) => filled(table[text] ?? text, values);

function filled(text, values) {
  return text.split(/\{(\w+)\}/u).map((part, index) => {
    if (index % 2 === 0) return part;
    const value = values[part] ?? `{${part}}`;
    return typeof value === "number" ? number(value) : value;
  });
}

// Strings that look like secrets, found so that they can be hidden until somebody asks. The shapes are those of the
// library's `mask.rs`; `web/units/secrets.json` holds both to the same cases.

const SHAPES: [string, string?][] = [
  [String.raw`\b(sk-ant-[A-Za-z0-9_-]{16,})`],
  [String.raw`\b(sk-(?:proj-|svcacct-|admin-|or-v1-|lf-)?[A-Za-z0-9_-]{20,})`],
  [String.raw`\b((?:xai|pplx|tvly|nvapi)-[A-Za-z0-9_-]{20,})`],
  [String.raw`\b((?:gsk|hf|r8|lin_api|dckr_pat|rubygems|figd)_[A-Za-z0-9_-]{20,})`],
  [String.raw`\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})\b`],
  [String.raw`\b(AIza[0-9A-Za-z_-]{30,})`],
  [String.raw`\b(ya29\.[0-9A-Za-z_-]{20,})`],
  [String.raw`\b(GOCSPX-[A-Za-z0-9_-]{20,})`],
  [String.raw`(?:AccountKey|SharedAccessKey)=([A-Za-z0-9+/=]{40,})`, "i"],
  [String.raw`[?&]sig=([A-Za-z0-9%+/=]{30,})`],
  [String.raw`\b(do[opr]_v1_[a-f0-9]{40,})`],
  [String.raw`\b(dapi[a-f0-9]{32})\b`],
  [String.raw`\b(hv[bs]\.[A-Za-z0-9_-]{20,})`],
  [String.raw`\b(gh[pousr]_[A-Za-z0-9]{30,})`],
  [String.raw`\b(github_pat_[A-Za-z0-9_]{30,})`],
  [String.raw`\b(gl(?:pat|ptt|dt|rt|cbt|soat|agent)-[A-Za-z0-9_-]{20,})`],
  [String.raw`\b(npm_[A-Za-z0-9]{36})\b`],
  [String.raw`\b(pypi-[A-Za-z0-9_-]{30,})`],
  [String.raw`\b(ATATT[A-Za-z0-9_=-]{40,})`],
  [String.raw`\b(xox[abeoprs]-[A-Za-z0-9-]{10,})`],
  [String.raw`\b(xapp-[0-9]-[A-Za-z0-9-]{10,})`],
  [String.raw`hooks\.slack\.com/services/([A-Za-z0-9/]{20,})`],
  [String.raw`\b([0-9]{8,10}:AA[A-Za-z0-9_-]{32,})`],
  [String.raw`\b([MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})`],
  [String.raw`\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})`],
  [String.raw`\b((?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,})`],
  [String.raw`\b(whsec_[A-Za-z0-9+/=]{24,})`],
  [String.raw`\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b`],
  [String.raw`\b(eyJ[A-Za-z0-9_-]{8,1024}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})`],
  [String.raw`-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----((?:[^-]|-[^-]){16,})`],
  [String.raw`\b(AGE-SECRET-KEY-1[0-9A-Z]{50,})`],
  [String.raw`\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,64}:([^\s/@]{3,256})@`],
  [String.raw`(?:\bbearer\s+|\bauthorization:\s*basic\s+)([A-Za-z0-9._~+/=-]{16,})`, "i"],
  [String.raw`--(?:password|passwd|token|secret|api-?key)\s+([^\s"'\`,;<>(){}\[\]$]{8,})`, "i"],
];
const ASSIGNMENT = String.raw`(?:passwor[dt]|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret|credentials?)["']?\s{0,64}[:=]>?\s{0,64}["']?([^\s"'\`,;<>(){}\[\]]{8,})`;

const patterns = SHAPES.map(([source, flags]) => new RegExp(source, `dg${flags ?? ""}`));
const assignment = new RegExp(ASSIGNMENT, "dgi");
/** What a text without any of these need not be looked through for. */
const hint = /[_-][A-Za-z0-9]{8}|AKIA|ASIA|ABIA|ACCA|AIza|ya29|dapi|hv[bs]\.|:AA|SG\.|eyJ|ATATT|PRIVATE KEY|:\/\/|sig=|AccessKey|AccountKey|bearer|basic|passw|passphrase|pwd|secret|token|key|credential|[MNO][A-Za-z0-9_-]{23}/i;

/** How much of a text is looked through: what is shown at once is less. */
export const MOST = 400_000;

const isValue = (text: string): boolean => /[0-9]/.test(text) && /[A-Za-z]/.test(text) && !text.includes("::");

/** From where to where a secret is, and where the words begin that tell it for one: without them it would not be known. */
export type Span = [from: number, to: number, told: number];

/** Where secrets are, from left to right, none within another. */
export const spans = (text: string): Span[] => {
  const part = text.length > MOST ? text.slice(0, MOST) : text;
  if (!hint.test(part)) return [];
  const found: Span[] = [];
  for (const pattern of patterns) {
    for (const match of part.matchAll(pattern)) {
      const span = match.indices?.[1];
      if (span) found.push([span[0], span[1], match.index]);
    }
  }
  for (const match of part.matchAll(assignment)) {
    const span = match.indices?.[1];
    if (span && isValue(match[1] ?? "")) found.push([span[0], span[1], match.index]);
  }
  found.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  const apart: Span[] = [];
  for (const span of found) {
    const last = apart[apart.length - 1];
    if (!last || span[0] >= last[1]) apart.push(span);
    else {
      last[1] = Math.max(last[1], span[1]);
      last[2] = Math.min(last[2], span[2]);
    }
  }
  return apart;
};

export const secrets = (text: string): [number, number][] => spans(text).map(([from, to]) => [from, to]);

/** What stands for a secret in a text that goes on to be taken apart: its number in characters of the private area, which no grammar takes for anything. */
export const OPEN = "\uE000";
export const CLOSE = "\uE001";
const DIGITS = 0xe100;
export const STANDIN = /\uE000([\uE100-\uE13F]+)\uE001/g;

const standIn = (number: number): string => {
  let [digits, rest] = ["", number];
  do {
    digits = String.fromCharCode(DIGITS + (rest & 63)) + digits;
    rest >>= 6;
  } while (rest > 0);
  return OPEN + digits + CLOSE;
};

/** The number that the inside of a stand-in says. */
export const numberOf = (digits: string): number => [...digits].reduce((sum, digit) => sum * 64 + digit.charCodeAt(0) - DIGITS, 0);

export interface Hidden {
  text: string;
  secrets: string[];
}

/** The text with a stand-in for each secret. */
export const hide = (text: string): Hidden => {
  const plain = text.includes(OPEN) || text.includes(CLOSE) ? text.replaceAll(OPEN, "\uFFFD").replaceAll(CLOSE, "\uFFFD") : text;
  const found = spans(plain);
  if (found.length === 0) return { text: plain, secrets: [] };
  const hidden: string[] = [];
  let [out, at] = ["", 0];
  for (const [from, to] of found) {
    out += plain.slice(at, from) + standIn(hidden.length);
    hidden.push(plain.slice(from, to));
    at = to;
  }
  return { text: out + plain.slice(at), secrets: hidden };
};

/** The text as it was. */
export const reveal = ({ text, secrets: hidden }: { text: string; secrets: readonly string[] }): string =>
  hidden.length === 0 ? text : text.replace(STANDIN, (_, digits: string) => hidden[numberOf(digits)] ?? "");

import { isRecord } from '../../../model/read-schema.ts';

export const REDACTED = '[redacted]';

/** Names under which secrets stand, in configurations, environments and logs alike. */
const SECRET_NAME =
  /(^|[_.-])pass$|pass(word|wd|phrase|code)|secret|token|credential|cookie|bearer|authorization|private.?key|api.?key|access.?key|(key|certificate(-authority)?).?data$|^ca.?bundle$/i;
/** Names of those that only say where a secret is. */
const PLACE_NAME = /(file|path|dir|folder|ref|name|count|expir\w*)$/i;
/** Shorter ones are found by where they stand; looked for everywhere, they would tear apart what is no secret. */
const SHORTEST_KNOWN = 6;

export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) && !PLACE_NAME.test(name);
}

/** Takes secrets out of a text: those that are known by value, and what looks or stands like one. */
export function redactorFor(known: Iterable<string>): (text: string) => string {
  const forms = [...new Set([...known].filter((secret) => secret.length >= SHORTEST_KNOWN).flatMap(formsOf))]
    // What contains another goes first.
    .sort((a, b) => b.length - a.length);
  const withoutKnown = (text: string): string =>
    forms.reduce((rest, secret) => rest.replaceAll(secret, () => REDACTED), text);
  const clean = (text: string): string => withoutLooks(withoutKnown(text));
  return (text) => {
    const document = asJson(text);
    if (document !== undefined) return `${JSON.stringify(redactValue(document, clean), undefined, 2)}\n`;
    return clean(text)
      .split('\n')
      .map((line) => {
        const entry = asJson(line);
        return entry === undefined ? withoutNamed(line) : JSON.stringify(redactValue(entry, clean));
      })
      .join('\n');
  };
}

/** The secrets in a document, by the names they stand under and in URLs: to look for them elsewhere. */
export function secretsIn(value: unknown, isNamed = false): readonly string[] {
  if (typeof value === 'string') {
    const [, userinfo = ''] = URL_USERINFO.exec(value) ?? [];
    const password = userinfo.slice(userinfo.indexOf(':') + 1);
    return [...(isNamed ? [value] : []), ...(password === '' ? [] : [password, decoded(password)])];
  }
  if (Array.isArray(value)) return value.flatMap((each) => secretsIn(each, isNamed));
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, each]) => secretsIn(each, isNamed || isSecretName(name)));
}

const URL_USERINFO = /:\/\/([^\s"<>]*)@/;
const PEM = /-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(-----END [A-Z0-9 ]+-----|$)/g;
/** The beginning of a PEM text in base64, as kubeconfigs have it. */
const PEM_IN_BASE64 = /LS0tLS1CRUdJTi[\w+/=-]*/g;
const JWT = /\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*/g;
const AUTHORIZATION = /\b(bearer|basic)\s+[^\s"']+/gi;

/** What looks like a secret, whatever stands before it. */
function withoutLooks(text: string): string {
  return text
    .replaceAll(PEM, REDACTED)
    .replaceAll(PEM_IN_BASE64, REDACTED)
    .replaceAll(JWT, REDACTED)
    .replaceAll(AUTHORIZATION, (_, scheme: string) => `${scheme} ${REDACTED}`)
    .replaceAll(new RegExp(URL_USERINFO, 'g'), `://${REDACTED}@`);
}

const NAMED = /^(?<before>.*?)(?<name>(["']?)[\w.-]+\3)(?<between>\s*[:=]\s*)(?<value>.+)$/;
const QUOTED = /^(?:"(?:\\.|[^"\\])*"|'[^']*')/;

/** `name=value` and `name: value`; without quotes a value goes on to the end of the line. */
function withoutNamed(line: string): string {
  const { before = '', name = '', between = '', value } = NAMED.exec(line)?.groups ?? {};
  if (value === undefined) return line;
  const start = `${before}${name}${between}`;
  if (!isSecretName(name.replaceAll(/["']/g, ''))) return `${start}${withoutNamed(value)}`;
  const quoted = QUOTED.exec(value)?.[0];
  return `${start}${REDACTED}${quoted === undefined ? '' : withoutNamed(value.slice(quoted.length))}`;
}

function redactValue(value: unknown, clean: (text: string) => string, isNamed = false): unknown {
  if (typeof value === 'string') return isNamed ? REDACTED : clean(value);
  if (typeof value === 'number' && isNamed) return REDACTED;
  if (Array.isArray(value)) return value.map((each) => redactValue(each, clean, isNamed));
  if (!isRecord(value)) return value;
  // A variable of an environment, as pods list them.
  const isSecretPair = typeof value['name'] === 'string' && isSecretName(value['name']);
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => {
      const isSecret = isNamed || isSecretName(name) || (isSecretPair && name === 'value');
      return [clean(name), redactValue(each, clean, isSecret)];
    }),
  );
}

/** How one secret may be written. */
function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret, 'utf8');
  const lines = secret.split('\n').filter((line) => line.length >= 3 * SHORTEST_KNOWN);
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encoded(secret),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    ...(lines.length > 1 ? lines : []),
  ];
}

/** Objects and arrays only: a bare word is JSON too. */
function asJson(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}

/** A lone surrogate has no form in a URL. */
function encoded(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    if (cause instanceof URIError) return text;
    throw cause;
  }
}

import { isRecord } from '../../../model/read-schema.ts';

export const REDACTED = '[redacted]';

/** Names of secrets in configurations, environments and logs. */
const SECRET_NAME =
  /(^|[_.-])pass$|pass(word|wd|phrase|code)|secret|token|credential|cookie|bearer|authorization|private.?key|api.?key|access.?key|(key|certificate(-authority)?).?data$|^ca.?bundle$/i;
/** Names that match SECRET_NAME but hold only the place of a secret. */
const PLACE_NAME = /(file|path|dir|folder|ref|name|count|expir\w*)$/i;
/** Shorter secrets are redacted only by name; searched everywhere, they would match ordinary text. */
const SHORTEST_KNOWN = 6;

/** Reports whether a field or variable of this name holds a secret. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name) && !PLACE_NAME.test(name);
}

/** Returns a function that redacts known secrets, and whatever has the form or the name of a secret. */
export function redactorFor(known: Iterable<string>): (text: string) => string {
  const forms = [...new Set([...known].filter((secret) => secret.length >= SHORTEST_KNOWN).flatMap(formsOf))]
    // A secret that contains another is replaced first.
    .sort((a, b) => b.length - a.length);
  const withoutKnown = (text: string): string =>
    forms.reduce((rest, secret) => rest.replaceAll(secret, () => REDACTED), text);
  const clean = (text: string): string => redactForms(withoutKnown(text));
  return (text) => {
    const document = asJson(text);
    if (document !== undefined) return `${JSON.stringify(redactValue(document, clean), undefined, 2)}\n`;
    return clean(text)
      .split('\n')
      .map((line) => {
        const entry = asJson(line);
        return entry === undefined ? redactNamed(line) : JSON.stringify(redactValue(entry, clean));
      })
      .join('\n');
  };
}

/** Returns the secrets of a document: values of secret names, and passwords in URLs. */
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
/** Starts with "-----BEGIN" in base64, as kubeconfigs hold PEM texts. */
const PEM_IN_BASE64 = /LS0tLS1CRUdJTi[\w+/=-]*/g;
const JWT = /\beyJ[\w-]{5,}\.[\w-]+\.[\w-]*/g;
const AUTHORIZATION = /\b(bearer|basic)\s+[^\s"']+/gi;

/** Redacts text that has the form of a secret. */
function redactForms(text: string): string {
  return text
    .replaceAll(PEM, REDACTED)
    .replaceAll(PEM_IN_BASE64, REDACTED)
    .replaceAll(JWT, REDACTED)
    .replaceAll(AUTHORIZATION, (_, scheme: string) => `${scheme} ${REDACTED}`)
    .replaceAll(new RegExp(URL_USERINFO, 'g'), `://${REDACTED}@`);
}

const NAMED = /^(?<before>.*?)(?<name>(["']?)[\w.-]+\3)(?<between>\s*[:=]\s*)(?<value>.+)$/;
const QUOTED = /^(?:"(?:\\.|[^"\\])*"|'[^']*')/;

/** Redacts `name=value` and `name: value`; a value without quotes extends to the end of the line. */
function redactNamed(line: string): string {
  const { before = '', name = '', between = '', value } = NAMED.exec(line)?.groups ?? {};
  if (value === undefined) return line;
  const start = `${before}${name}${between}`;
  if (!isSecretName(name.replaceAll(/["']/g, ''))) return `${start}${redactNamed(value)}`;
  const quoted = QUOTED.exec(value)?.[0];
  return `${start}${REDACTED}${quoted === undefined ? '' : redactNamed(value.slice(quoted.length))}`;
}

function redactValue(value: unknown, clean: (text: string) => string, isNamed = false): unknown {
  if (typeof value === 'string') return isNamed ? REDACTED : clean(value);
  if (typeof value === 'number' && isNamed) return REDACTED;
  if (Array.isArray(value)) return value.map((each) => redactValue(each, clean, isNamed));
  if (!isRecord(value)) return value;
  // An entry of a pod's `env` list.
  const isSecretPair = typeof value['name'] === 'string' && isSecretName(value['name']);
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => {
      const isSecret = isNamed || isSecretName(name) || (isSecretPair && name === 'value');
      return [clean(name), redactValue(each, clean, isSecret)];
    }),
  );
}

/** Returns the encodings in which a secret may occur. */
function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret, 'utf8');
  const lines = secret.split('\n').filter((line) => line.length >= 3 * SHORTEST_KNOWN);
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    // Without lone surrogates, on which the function throws.
    encodeURIComponent(secret.toWellFormed()),
    bytes.toString('base64').replace(/=+$/, ''),
    bytes.toString('base64url'),
    ...(lines.length > 1 ? lines : []),
  ];
}

/** Parses objects and arrays only, since a bare word such as `true` is JSON too. */
function asJson(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    if (cause instanceof SyntaxError) return undefined;
    throw cause;
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    if (cause instanceof URIError) return text;
    throw cause;
  }
}

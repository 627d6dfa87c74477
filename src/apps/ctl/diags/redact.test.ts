import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isSecretName, REDACTED, redactorFor, secretsIn } from './redact.ts';

const redact = redactorFor([]);

describe('redaction', () => {
  it.each([
    ['https://root:hunter2@etcd:2379/v3', `https://${REDACTED}@etcd:2379/v3`],
    ['https://root:a@b/c@etcd:2379', `https://${REDACTED}@etcd:2379`],
    ['INFO call password=hunter2 pod=a', `INFO call password=${REDACTED}`],
    ['INFO call password="a b" pod=a', `INFO call password=${REDACTED} pod=a`],
    ['  client-key-data: abc', `  client-key-data: ${REDACTED}`],
    ['Authorization: Basic cm9vdDpodW50ZXIy', `Authorization: ${REDACTED}`],
    ['sent "Bearer abc.def" to it', `sent "Bearer ${REDACTED}" to it`],
    ['jwt eyJhbGciOiJub25lIn0.eyJhIjoxfQ.sig end', `jwt ${REDACTED} end`],
    ['x LS0tLS1CRUdJTiBSU0E= y', `x ${REDACTED} y`],
    ['-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nrest', `${REDACTED}\nrest`],
    ['kv_key_file=/etc/key tokenFile: /run/token', 'kv_key_file=/etc/key tokenFile: /run/token'],
    [
      'found "kv_endpoints": pool blue 10.0.0.0/16 is at 10:20:30',
      'found "kv_endpoints": pool blue 10.0.0.0/16 is at 10:20:30',
    ],
  ])('redacts secrets in %j', (text, expected) => {
    expect(redact(text)).toBe(expected);
  });

  it('redacts values in a JSON document by name, by form, and in name-value pairs', () => {
    const document = {
      kv_endpoints: 'https://root:hunter2@etcd:2379',
      password: { secretKeyRef: 'x', deep: ['hunter2', 7] },
      env: [
        { name: 'DB_PASSWORD', value: 'hunter2' },
        { name: 'ZONE', value: 'a' },
      ],
      note: 'Bearer hunter2',
      kv_key_file: '/etc/key',
    };
    expect(JSON.parse(redact(JSON.stringify(document)))).toEqual({
      kv_endpoints: `https://${REDACTED}@etcd:2379`,
      password: { secretKeyRef: REDACTED, deep: [REDACTED, REDACTED] },
      env: [
        { name: 'DB_PASSWORD', value: REDACTED },
        { name: 'ZONE', value: 'a' },
      ],
      note: `Bearer ${REDACTED}`,
      kv_key_file: '/etc/key',
    });
  });

  it('redacts each line that is JSON', () => {
    expect(redact('plain\n{"token":"abc","n":1}\n')).toBe(`plain\n{"token":"${REDACTED}","n":1}\n`);
  });

  it('redacts a known secret in each of its encodings', () => {
    const secret = 'kéy "&/ 1';
    const known = redactorFor([secret]);
    const base64 = Buffer.from(secret).toString('base64');
    for (const form of [secret, JSON.stringify(secret), encodeURIComponent(secret), base64])
      expect(known(`a ${form} b`)).toContain(REDACTED);
    expect(known(base64)).not.toContain(base64.replace(/=+$/, ''));
  });

  it('collects the secrets of a document', () => {
    const document = {
      users: [{ user: { token: 'abc', username: 'u' } }],
      url: 'http://u:p%20w@h',
      'client-key-data': 'k',
    };
    expect(secretsIn(document)).toEqual(['abc', 'p%20w', 'p w', 'k']);
  });

  it.each([
    'password',
    'TOKEN',
    'clientSecret',
    'client-key-data',
    'nodeMeshPassword',
    'AWS_SECRET_ACCESS_KEY',
    'apiKey',
  ])('regards %s as the name of a secret', (name) => expect(isSecretName(name)).toBe(true));
  it.each(['kv_key_file', 'tokenFile', 'passwordRef', 'compass', 'kv_authority', 'key', 'keys', 'passed', 'podCIDR'])(
    'does not regard %s as the name of a secret',
    (name) => expect(isSecretName(name)).toBe(false),
  );
});

/** Texts that contain a secret, by where it is. */
const PLACES: Readonly<Record<string, (secret: string) => string>> = {
  'a URL': (secret) => `found "https://root:${encodeURIComponent(secret)}@etcd:2379/"`,
  'a document': (secret) => JSON.stringify({ a: [{ password: secret }] }),
  'a value of a document that is a URL': (secret) => JSON.stringify({ a: `http://u:${encodeURIComponent(secret)}@h` }),
  'a variable': (secret) => JSON.stringify([{ name: 'API_TOKEN', value: secret }]),
  'a line of YAML': (secret) => `a: 1\npassword: ${secret}\nb: 2`,
  'a quoted line': (secret) => `a=1 secret=${JSON.stringify(secret)} b=2`,
  'a header': (secret) => `authorization: Bearer ${secret}`,
  'a key': (secret) => `x\n-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----\ny`,
  'half a key': (secret) => `x\n-----BEGIN PRIVATE KEY-----\n${secret}`,
};

describe('redaction of an unknown secret', () => {
  const secrets = fc
    .string({ minLength: 8, maxLength: 40, unit: 'grapheme-ascii' })
    .filter((text) => text.trim() === text);

  it.each(Object.entries(PLACES))('removes it from %s', (_, place) => {
    fc.assert(
      fc.property(secrets, (secret) => {
        const text = redact(place(secret));
        return [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)].every(
          (form) => !text.includes(form),
        );
      }),
      { numRuns: 500 },
    );
  });
});

describe('redaction of a known secret', () => {
  it('removes it from any text', () => {
    const word = fc.string({ minLength: 6, maxLength: 60, unit: 'grapheme' }).filter((text) => text.isWellFormed());
    fc.assert(
      fc.property(word, fc.string(), fc.string(), (secret, before, after) => {
        const text = redactorFor([secret])(`${before}${secret}${after}`);
        return !text.includes(secret) || REDACTED.includes(secret);
      }),
      { numRuns: 1000 },
    );
  });
});

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { ownValue } from '../../../base/own-value.ts';
import { reasonOf } from '../../../base/errors.ts';
import { at } from '../../../base/problem.ts';
import { placeholderIn } from '../../../config/value-advice.ts';
import { isRecord } from '../../../model/read-schema.ts';
import { KV_CERTIFICATES } from '../names.ts';
import type { NamedDocument, ReportRemark } from './named-document.ts';

const KEYS = { 'ca.crt': 'CA certificate', 'tls.crt': 'client certificate', 'tls.key': 'client key' } as const;
const DAY_MS = 86_400_000;
const SOON_DAYS = 30;

/** Checks the Secret with the certificates of etcd, when an object of the manifest mounts it. */
export function checkCertificates(
  named: readonly NamedDocument[],
  { report, now }: { readonly report: ReportRemark; readonly now: number },
): void {
  const secret = named.find(({ kind, name }) => kind === 'Secret' && name === KV_CERTIFICATES);
  const user = named.find(({ value }) => JSON.stringify(value).includes(`"secretName":"${KV_CERTIFICATES}"`));
  if (secret === undefined) {
    if (user === undefined) return;
    report({
      document: user.index,
      path: 'spec.template.spec.volumes',
      severity: 'warning',
      message: `The Secret "${KV_CERTIFICATES}" is mounted and not in the file; it must be in the cluster with the keys ${Object.keys(KEYS).join(', ')}`,
    });
    return;
  }
  const { value, index } = secret;
  const texts = Object.keys(KEYS).map((key) => [key, textOf(value, key)] as const);
  for (const [key, text] of texts) {
    if (text !== undefined) continue;
    const { [key as keyof typeof KEYS]: what } = KEYS;
    report({
      document: index,
      path: 'data',
      message: `has no key ${key}`,
      hint: `add the ${what} in base64 as data["${key}"]`,
    });
  }
  const pems = new Map(
    texts.flatMap(([key, text]) => {
      if (text === undefined || placeholderIn(text) !== undefined) return [];
      const pem = isBase64(text) ? Buffer.from(text, 'base64').toString('utf8') : undefined;
      if (pem?.includes('-----BEGIN ') === true) return [[key, pem] as const];
      const hint = `write the output of: base64 -w0 ${key}`;
      report({ document: index, path: at('data', key), message: 'is no PEM file in base64', hint });
      return [];
    }),
  );
  for (const { problem, key, severity } of faultsOf(pems, now)) {
    report({
      document: index,
      path: at('data', key),
      message: problem,
      ...(severity === undefined ? {} : { severity }),
    });
  }
}

function textOf(secret: Readonly<Record<string, unknown>>, key: string): string | undefined {
  const { data, stringData } = secret;
  const plain = isRecord(stringData) ? ownValue(stringData, key) : undefined;
  if (typeof plain === 'string')
    return placeholderIn(plain) === undefined ? Buffer.from(plain).toString('base64') : plain;
  const text = isRecord(data) ? ownValue(data, key) : undefined;
  return typeof text === 'string' && text !== '' ? text : undefined;
}

function isBase64(text: string): boolean {
  return /^[A-Za-z0-9+/\s]+={0,2}\s*$/.test(text);
}

interface CertificateFault {
  readonly key: string;
  readonly problem: string;
  readonly severity?: 'warning';
}

/** Returns the faults of certificates and key, which are PEM by their names in the Secret. */
export function faultsOf(pems: ReadonlyMap<string, string>, now: number): readonly CertificateFault[] {
  const faults: CertificateFault[] = [];
  const certificates = new Map<string, X509Certificate>();
  for (const key of ['ca.crt', 'tls.crt']) {
    const pem = pems.get(key);
    if (pem === undefined) continue;
    try {
      const certificate = new X509Certificate(pem);
      certificates.set(key, certificate);
      faults.push(...validityOf(certificate, key, now));
    } catch (cause) {
      faults.push({ key, problem: `is no certificate that can be read: ${reasonOf(cause)}` });
    }
  }
  const keyPem = pems.get('tls.key');
  if (keyPem === undefined) return faults;
  try {
    const key = createPrivateKey(keyPem);
    const isPair = certificates.get('tls.crt')?.checkPrivateKey(key) ?? true;
    if (!isPair) faults.push({ key: 'tls.key', problem: 'is not the key of tls.crt' });
  } catch (cause) {
    faults.push({ key: 'tls.key', problem: `is no private key that can be read: ${reasonOf(cause)}` });
  }
  return faults;
}

function validityOf(certificate: X509Certificate, key: string, now: number): readonly CertificateFault[] {
  const until = Date.parse(certificate.validTo);
  if (Date.parse(certificate.validFrom) > now) return [{ key, problem: `is valid only from ${certificate.validFrom}` }];
  if (until < now) return [{ key, problem: `has expired on ${certificate.validTo}` }];
  const days = Math.floor((until - now) / DAY_MS);
  if (days >= SOON_DAYS) return [];
  return [{ key, severity: 'warning', problem: `${key} expires in ${String(days)} days; renew it` }];
}

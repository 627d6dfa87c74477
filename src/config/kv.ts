import type { PartialOutput } from '../model/read-schema.ts';
import type { Findings, Fix } from '../base/problem.ts';
import type { KvConnection, KvEndpoints } from './connection.ts';
import type { COMMON_FIELDS } from './fields.ts';
import { encrypted, isUnencrypted, tlsOptionsOf } from './require-tls.ts';

type Values = PartialOutput<typeof COMMON_FIELDS>;

/** Returns the connection from current, deprecated and default options. */
export function decideConnection(values: Values, findings: Findings): KvConnection {
  const { kv_key_file: keyFile, kv_cert_file: certFile, kv_ca_cert_file: caCertFile } = values;
  const [there, missing] = keyFile === undefined ? ['kv_cert_file', 'kv_key_file'] : ['kv_key_file', 'kv_cert_file'];
  if ((keyFile === undefined) !== (certFile === undefined) && !isBroken(missing, findings)) {
    findings.problems.push({
      path: missing,
      message: `missing, while ${there} is set`,
      hint: `set ${missing} too for mutual TLS, or remove ${there}`,
      code: 'netconf/invalid',
    });
  }
  for (const [key, path] of Object.entries({
    kv_key_file: keyFile,
    kv_cert_file: certFile,
    kv_ca_cert_file: caCertFile,
  })) {
    if (path !== undefined && !path.startsWith('/')) {
      const message = `${key} is relative to the working directory of the runtime; write an absolute path`;
      findings.warnings.push({ path: key, message });
    }
  }
  const files = { keyFile, certFile, caCertFile };
  return { endpoints: decideEndpoints(values, tlsOptionsOf(files), findings), ...files };
}

function decideEndpoints(values: Values, tlsOptions: readonly string[], findings: Findings): KvEndpoints {
  const { problems, warnings } = findings;
  const { kv_endpoints: urls, kv_discovery_srv: domain, kv_authority: authority } = values;
  const scheme = values.kv_scheme === '' ? undefined : values.kv_scheme;
  const deprecated = Object.entries({ kv_authority: authority, kv_scheme: scheme })
    .filter(([, value]) => value !== undefined)
    .map(([key]) => key);
  const hasList = urls !== undefined || isBroken('kv_endpoints', findings);
  if (hasList && domain !== undefined) {
    const hint = 'keep one of the two';
    problems.push({ path: 'kv_discovery_srv', message: 'excludes kv_endpoints', hint, code: 'netconf/invalid' });
  }
  if (urls !== undefined || domain !== undefined) {
    const used = urls === undefined ? 'kv_discovery_srv' : 'kv_endpoints';
    for (const path of deprecated) {
      const message = `${path} is deprecated and has no effect beside ${used}; remove it`;
      warnings.push({ path, message, fix: [{ kind: 'remove', path }] });
    }
    if (urls === undefined) return { from: 'srv', domain: domain ?? '' };
    checkEncryption({ urls, path: 'kv_endpoints', tlsOptions }, findings);
    return { from: 'list', urls };
  }
  const url = `${scheme ?? 'http'}://${authority ?? '127.0.0.1:2379'}`;
  const isRefused = !hasList && isUnencrypted(url) && tlsOptions.length > 0;
  const advised = isRefused ? encrypted(url) : url;
  for (const path of deprecated) {
    const message = `${path} is deprecated; write kv_endpoints as "${advised}" instead`;
    warnings.push({ path, message, ...(hasList || isRefused ? {} : { fix: replaceBy(url, deprecated) }) });
  }
  if (isRefused) checkEncryption({ urls: [url], path: deprecated.at(-1) ?? 'kv_endpoints', tlsOptions }, findings);
  if (deprecated.length === 0 && !hasList) {
    warnings.push({ path: '', message: `No kv_endpoints are given; "${url}" is used` });
  }
  return { from: 'list', urls: [url] };
}

/** Refuses plain URLs together with TLS files, because requests would silently travel unencrypted. */
function checkEncryption(
  {
    urls,
    path,
    tlsOptions,
  }: { readonly urls: readonly string[]; readonly path: string; readonly tlsOptions: readonly string[] },
  { problems, warnings }: Findings,
): void {
  const plain = urls.filter(isUnencrypted);
  if (plain.length === 0) return;
  if (tlsOptions.length > 0) {
    problems.push({
      path,
      message: `"${plain.join(',')}" is not encrypted, while ${tlsOptions.join(' and ')} ask for TLS`,
      hint: `write kv_endpoints as "${urls.map(encrypted).join(',')}", or remove ${tlsOptions.join(' and ')}`,
      code: 'netconf/invalid',
    });
  } else if (plain.length < urls.length) {
    const message = `${path} mixes https with http: when https endpoints fail, requests travel unencrypted; write https only`;
    warnings.push({ path, message });
  }
}

/** Returns the fix that replaces the deprecated options with kv_endpoints. */
function replaceBy(url: string, [first = '', ...others]: readonly string[]): Fix {
  return [
    { kind: 'rename', path: first, to: 'kv_endpoints' },
    { kind: 'set', path: first, value: url },
    ...others.map((path) => ({ kind: 'remove', path }) as const),
  ];
}

/** Reports whether the option is present but invalid, which was reported before. */
function isBroken(key: string, { problems }: Findings): boolean {
  return problems.some(({ path }) => path === key);
}

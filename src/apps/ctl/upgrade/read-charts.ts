import type { Unread } from '../../../checks/check.ts';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import * as v from 'valibot';
import { foreignRecord } from '../../../base/foreign-record.ts';
import { reasonOf } from '../../../base/errors.ts';
import { tryParseJson } from '../../../base/try-parse-json.ts';
import type { Manifest } from '../../../model/manifest.ts';
import { OPERATOR, systemObject } from '../../../install/cluster/names.ts';
import { findObject } from '../../../kube/objects/apply.ts';
import type { ApiObject } from '../../../kube/objects.ts';
import type { OrchApi } from '../../../kube/orch-api.ts';
import { chartNamespaces } from '../../../upgrade/cluster/chart-owner.ts';
import { recordIn, textIn } from '../../../upgrade/cluster/objects-in.ts';
import type { ChartRelease } from '../../../upgrade/cluster/snapshot.ts';

const SECRETS = { group: '', version: 'v1', plural: 'secrets' } as const;
const RECORDS = { labelSelector: 'owner=helm', fieldSelector: 'type=helm.sh/release.v1' };
/** Far more than a Secret with all that a chart installs can hold. */
const LARGEST_BYTES = 64 << 20;
/** Kinds and names that only a chart of netplug has in its manifest. */
const OURS = /name: "?(netplug-operator|netplug-node)"?\s/;

const Release = v.looseObject({
  name: v.string(),
  namespace: v.optional(v.string(), ''),
  version: v.number(),
  info: v.looseObject({ status: v.string() }),
  chart: v.looseObject({ metadata: v.looseObject({ name: v.string(), version: v.string() }) }),
  config: v.optional(v.nullable(foreignRecord(v.string(), v.unknown()))),
  manifest: v.optional(v.string(), ''),
});

export interface ChartRecords {
  /** The newest revision of each release that holds objects of netplug. */
  readonly releases: readonly ChartRelease[];
  /** The Secrets of all revisions of these releases, whole. */
  readonly secrets: readonly Manifest[];
  /** Reasons why records could not be read. */
  readonly unread: readonly Unread[];
}

/** Reads the records of helm without helm, where only administrators write those of netplug. @throws store/* */
export async function readChartRecords(api: OrchApi, signal: AbortSignal): Promise<ChartRecords> {
  const operator = await findObject(api, systemObject('Deployment', OPERATOR), signal);
  const secrets: ApiObject[] = [];
  for (const namespace of chartNamespaces(operator))
    secrets.push(...(await api.list({ ...SECRETS, namespace }, RECORDS, signal)));
  const newest = new Map<string, ChartRelease>();
  const found: { readonly release: string; readonly secret: Manifest }[] = [];
  const unread: Unread[] = [];
  for (const secret of secrets) {
    const { name, namespace = '' } = secret.metadata;
    const read = await decodeRecord(secret);
    if (typeof read === 'string') {
      unread.push({ fact: `chart record Secret ${namespace}/${name}`, why: read });
      continue;
    }
    if (!read.isOurs) continue;
    const key = `${namespace}/${read.release.name}`;
    const known = newest.get(key);
    if (known === undefined || known.revision < read.release.revision) newest.set(key, read.release);
    found.push({ release: key, secret: { ...secret, apiVersion: 'v1', kind: 'Secret' } });
  }
  return { releases: [...newest.values()], secrets: found.map(({ secret }) => secret), unread };
}

/** Decodes a record, base64 of base64 of compressed JSON; returns why it cannot be. */
export async function decodeRecord(
  secret: ApiObject,
): Promise<{ readonly release: ChartRelease; readonly isOurs: boolean } | string> {
  const { name: record, namespace = '' } = secret.metadata;
  const data = textIn(recordIn(secret, 'data'), 'release');
  if (data === '') return 'it has no release';
  let text: string;
  try {
    const packed = Buffer.from(Buffer.from(data, 'base64').toString('latin1'), 'base64');
    text = (await promisify(gunzip)(packed, { maxOutputLength: LARGEST_BYTES })).toString('utf8');
  } catch (cause) {
    return `it is damaged (${reasonOf(cause)})`;
  }
  const read = v.safeParse(Release, tryParseJson(text));
  if (!read.success) return 'it has another form than helm writes';
  const { name, version, info, chart, config, manifest } = read.output;
  const { metadata } = chart;
  const release: ChartRelease = {
    name,
    namespace,
    revision: version,
    status: info.status,
    chart: metadata.name,
    version: metadata.version.startsWith('v') ? metadata.version : `v${metadata.version}`,
    values: config ?? {},
    record,
    kinds: [...new Set([...manifest.matchAll(/^kind: "?(\w+)/gm)].map(([, kind = '']) => kind))],
  };
  return { release, isOurs: OURS.test(`${manifest}\n`) };
}

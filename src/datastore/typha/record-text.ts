import * as v from 'valibot';
import { invariant, never } from '../../base/errors.ts';
import { foreignRecord } from '../../base/foreign-record.ts';
import { tryParseJson } from '../../base/try-parse-json.ts';
import { readObject } from '../../kube/objects.ts';
import { decodeBlock, encodeBlock } from '../../model/ip-block-codec.ts';
import { KINDS } from '../../model/kinds.ts';
import type { NodeName } from '../../model/names.ts';
import { isRecord } from '../../model/read-schema.ts';
import { type Address, formatAddress, tryParseAddress } from '../../net/address.ts';
import { type Cidr, formatCidr, tryReadCidr } from '../../net/cidr.ts';
import {
  type Decoded,
  decodedFrom,
  type FollowedRecord,
  type Query,
  type ResourceRecord,
  type RoutedBlock,
} from '../follow.ts';
import { sourcesOf } from '../orch/query-sources.ts';
import { type FollowTopic, isStoredTopic, queryOfTopic } from './topics.ts';
import { protocolError } from '../../stream/stream-frames.ts';
import { decodeEndpoint, decodeFollowedResource } from '../stored-resource.ts';
import type { ServiceEndpoints } from '../../model/service-endpoints.ts';

// The text of a record between programs, in format 1. What users wrote crosses as it is stored and is decoded by the
// reader's release. A further field does not raise the format, unless to ignore it would allow or reach more.

const resourceKinds = new Set(Object.keys(KINDS));
const address = v.pipe(
  v.string(),
  v.rawTransform<string, Address>(({ dataset, addIssue, NEVER }) => {
    const read = tryParseAddress(dataset.value);
    if (read === undefined) addIssue({ message: 'no address' });
    return read ?? NEVER;
  }),
);
const cidr = v.pipe(
  v.string(),
  v.rawTransform<string, Cidr>(({ dataset, addIssue, NEVER }) => {
    const read = tryReadCidr(dataset.value)?.cidr;
    if (read === undefined) addIssue({ message: 'no CIDR' });
    return read ?? NEVER;
  }),
);
// Only a decoder creates a branded value.
const nodeName = v.pipe(
  v.string(),
  v.minLength(1),
  v.transform((text) => text as NodeName),
);
const route = v.object({ cidr, node: v.optional(nodeName), borrowed: foreignRecord(v.string(), v.array(address)) });
const service = v.object({
  namespace: v.string(),
  name: v.string(),
  addresses: v.array(address),
  ports: v.array(v.object({ protocol: v.number(), port: v.number() })),
});
const which = v.object({
  kind: v.custom<ResourceRecord['which']['kind']>((kind) => typeof kind === 'string' && resourceKinds.has(kind)),
  name: v.string(),
  namespace: v.exactOptional(v.string()),
});
const crossing = v.object({
  kind: v.picklist(['resource', 'block', 'route', 'endpoint', 'service']),
  version: v.optional(v.string(), ''),
  which: v.optional(which),
  value: v.optional(v.unknown()),
  problem: v.optional(v.string()),
});

/**
 * Returns the text of a record of the topic that exists: the same for the same record. Versions of objects that cross as stored
 * count only in topics of stored objects.
 */
export function recordText(topic: FollowTopic, record: FollowedRecord): string {
  if (isStoredTopic(topic)) return JSON.stringify({ stored: record.stored });
  // Of a block, only what routes need crosses elsewhere.
  if (record.stored !== undefined && record.kind !== 'route')
    return JSON.stringify({ stored: withoutVersions(record.stored) });
  const { kind, version, problem } = record;
  return JSON.stringify({
    kind,
    ...(version === '' ? {} : { version }),
    ...(record.kind === 'resource' ? { which: record.which } : {}),
    ...(problem === undefined ? {} : { problem }),
    ...(record.value === undefined ? {} : { value: writtenValue(record) }),
  });
}

/**
 * Returns the record that a text of `recordText` stands for; undefined for an object in which this release sees none. It has its
 * object if the topic is one of stored objects.
 * @throws stream/protocol for another text
 */
export function readRecordText(
  topic: FollowTopic,
  { key, text }: { readonly key: string; readonly text: string },
): FollowedRecord | undefined {
  const query = queryOfTopic(topic);
  invariant(query !== undefined, 'a topic that was begun has no query');
  const raw = tryParseJson(text);
  const isKept = isStoredTopic(topic);
  if (isRecord(raw) && raw['stored'] !== undefined) return readStored(key, raw['stored'], { query, isKept });
  if (isKept) throw protocolError('the text of a stored object has none');
  const read = v.safeParse(crossing, raw);
  if (!read.success) throw protocolError('the text of a record is none');
  const { kind, version, which: id, value, problem } = read.output;
  const base = { query: 0, key, version };
  const decode = <T>(decoder: (raw: unknown) => Decoded<T>): Decoded<T> => {
    const decoded = value === undefined ? {} : decoder(value);
    const problems = [problem, decoded.problem].filter((each) => each !== undefined);
    return decodedFrom({ value: decoded.value, problems });
  };
  switch (kind) {
    case 'resource':
      if (id === undefined) throw protocolError('a resource has no name');
      return { ...base, kind, which: id, ...decode((each) => decodeFollowedResource(id, each)) };
    case 'block':
      return { ...base, kind, ...decode(readBlock) };
    case 'route':
      return { ...base, kind, ...decode((each) => readShape(route, each, routeOf)) };
    case 'endpoint':
      return { ...base, kind, ...decode((each) => orProblem(decodeEndpoint(each))) };
    case 'service':
      return {
        ...base,
        kind,
        ...decode((each) => readShape<typeof service, ServiceEndpoints>(service, each, (read) => read)),
      };
    default:
      return never(kind);
  }
}

/** Reads an object by the same code as a follower of the API. */
function readStored(
  key: string,
  raw: unknown,
  { query, isKept }: { readonly query: Query; readonly isKept: boolean },
): FollowedRecord | undefined {
  const object = readObject(raw);
  const [source] = sourcesOf(query, 0, { withStored: isKept });
  const [record] = object === undefined ? [] : (source?.watched?.recordsIn(object) ?? []);
  return record === undefined ? undefined : { ...record, key };
}

/** Every write changes these, also one of a status that is not followed here. */
function withoutVersions(stored: object): object {
  const { metadata, ...rest } = stored as { readonly metadata?: object };
  const {
    resourceVersion: _version,
    generation: _generation,
    managedFields: _fields,
    ...kept
  } = (metadata ?? {}) as Readonly<Record<string, unknown>>;
  return { ...rest, metadata: kept };
}

function writtenValue(record: FollowedRecord): unknown {
  switch (record.kind) {
    case 'block':
      return record.value === undefined ? undefined : encodeBlock(record.value);
    case 'route': {
      if (record.value === undefined) return undefined;
      const { cidr: block, node, borrowed } = record.value;
      const lent = [...borrowed].map(([name, addresses]) => [name, addresses.map(formatAddress)] as const);
      return { cidr: formatCidr(block), node, borrowed: Object.fromEntries(lent) };
    }
    case 'service':
      return record.value === undefined
        ? undefined
        : { ...record.value, addresses: record.value.addresses.map(formatAddress) };
    case 'resource':
    case 'endpoint':
      return record.value;
    default:
      return never(record);
  }
}

function routeOf({ cidr: block, node, borrowed }: v.InferOutput<typeof route>): RoutedBlock {
  // The names were those of nodes when they were written.
  return { cidr: block, node, borrowed: new Map(Object.entries(borrowed) as [NodeName, Address[]][]) };
}

function readBlock(raw: unknown): Decoded<Extract<FollowedRecord, { kind: 'block' }>['value'] & object> {
  const read = decodeBlock(raw);
  return 'block' in read ? { value: read.block } : { problem: read.problems.join('; ') };
}

function readShape<S extends v.GenericSchema, T>(
  schema: S,
  raw: unknown,
  make: (read: v.InferOutput<S>) => T,
): Decoded<T> {
  const read = v.safeParse(schema, raw);
  if (read.success) return { value: make(read.output) };
  const [issue] = read.issues;
  return { problem: `Cannot understand a record of the server: ${v.getDotPath(issue) ?? ''} ${issue.message}` };
}

function orProblem<T extends object>(decoded: T | string): Decoded<T> {
  return typeof decoded === 'string' ? { problem: decoded } : { value: decoded };
}

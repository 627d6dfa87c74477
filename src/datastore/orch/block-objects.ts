import * as v from 'valibot';
import { foreignRecord } from '../../base/foreign-record.ts';
import { decodeBlock, encodeBlock, type BlockRecord } from '../../model/ip-block-codec.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { API_VERSION } from '../../model/resource.ts';
import type { ApiObject } from '../../kube/objects.ts';
import { addressesOf, borrowersOf } from '../borrowers.ts';
import type { RoutedBlock, Decoded } from '../follow.ts';
import type { Claim, Stored } from '../allocation-store.ts';
import {
  blockObjectName,
  BORROWED_ANNOTATION,
  cidrOfBlockName,
  holderLabel,
  NODE_ANNOTATION,
  NODE_LABEL,
  nodeLabelValue,
  sameBlockName,
} from './names.ts';
import type { Unreadable } from '../unreadable.ts';
import { unreadableObject } from './unreadable.ts';

/** Blocks as custom resources: written by netplug alone. */
export const BLOCKS = { group: 'netplug.io', version: 'v3', plural: 'ipblocks' } as const;

export interface BlockObject {
  readonly apiVersion: typeof API_VERSION;
  readonly kind: 'IPBlock';
  readonly metadata: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations: Readonly<Record<string, string>>;
    readonly uid?: string;
    readonly resourceVersion?: string;
  };
  readonly spec: BlockRecord;
}

/** Object that a version belongs to, and its version. */
export interface BlockVersion {
  readonly uid: string;
  readonly resourceVersion: string;
}

/** The object of a block: labels are an index that is written with it, the spec is the truth. */
export function blockObject(block: IpBlock, version?: BlockVersion): BlockObject {
  const { node } = block;
  const borrowed = borrowersOf(block);
  const holders = [...borrowed.keys(), ...(node === undefined ? [] : [node])];
  const value = node === undefined ? undefined : nodeLabelValue(node);
  return {
    apiVersion: API_VERSION,
    kind: 'IPBlock',
    metadata: {
      name: blockObjectName(block.cidr),
      labels: {
        ...(value === undefined ? {} : { [NODE_LABEL]: value }),
        ...Object.fromEntries(holders.map((holder) => [holderLabel(holder), ''])),
      },
      annotations: {
        ...(node === undefined || value === node ? {} : { [NODE_ANNOTATION]: node }),
        ...(borrowed.size === 0 ? {} : { [BORROWED_ANNOTATION]: JSON.stringify(Object.fromEntries(borrowed)) }),
      },
      ...version,
    },
    spec: encodeBlock(block),
  };
}

export function readBlock(object: ApiObject): Stored<IpBlock> | Unreadable {
  const { name } = object.metadata;
  const decoded = decodeBlock(object['spec']);
  if ('problems' in decoded) return unreadableObject('IPBlock', name, decoded.problems.join('; '));
  if (!sameBlockName(name, decoded.block.cidr)) {
    return unreadableObject('IPBlock', name, `its CIDR belongs into "${blockObjectName(decoded.block.cidr)}"`);
  }
  return { value: decoded.block, version: formatVersion(versionOf(object)) };
}

/** Returns CIDR and owner from name and labels, without reading the block; undefined for a name that is no CIDR. */
export function readClaim({ metadata }: ApiObject): Claim | undefined {
  const cidr = cidrOfBlockName(metadata.name);
  if (cidr === undefined) return undefined;
  const node = metadata.annotations?.[NODE_ANNOTATION] ?? metadata.labels?.[NODE_LABEL];
  // Only netplug writes these, and only with node names.
  return { cidr, node: node as NodeName | undefined };
}

const borrowedOrdinals = v.pipe(
  v.string(),
  v.parseJson(),
  foreignRecord(v.string(), v.array(v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535)))),
);

/** Returns the fields for routes from name, labels and annotations; without a valid annotation of borrowers, only the owner. */
export function readRouting(object: ApiObject): Decoded<RoutedBlock> {
  const claim = readClaim(object);
  const { name, annotations } = object.metadata;
  if (claim === undefined) return { problem: unreadableObject('IPBlock', name, 'its name stands for no CIDR').problem };
  const text = annotations?.[BORROWED_ANNOTATION];
  if (text === undefined) return { value: { ...claim, borrowed: new Map() } };
  const read = v.safeParse(borrowedOrdinals, text);
  // Only netplug writes these, and only with node names.
  const ordinals = new Map(Object.entries(read.success ? read.output : {}) as [NodeName, number[]][]);
  const value = { ...claim, borrowed: addressesOf(claim.cidr, ordinals) };
  if (read.success) return { value };
  const why = `annotation "${BORROWED_ANNOTATION}" does not say who borrows what`;
  return { value, problem: unreadableObject('IPBlock', name, why).problem };
}

export function versionOf({ metadata }: ApiObject): BlockVersion {
  return { uid: metadata.uid ?? '', resourceVersion: metadata.resourceVersion ?? '' };
}

export function isSameVersion(one: BlockVersion, other: BlockVersion): boolean {
  return one.uid === other.uid && one.resourceVersion === other.resourceVersion;
}

export function formatVersion({ uid, resourceVersion }: BlockVersion): string {
  return `${uid}/${resourceVersion}`;
}

export function parseVersion(text: string): BlockVersion {
  const [uid = '', resourceVersion = ''] = text.split('/');
  return { uid, resourceVersion };
}

import { decodeBlock, encodeBlock, type BlockRecord } from '../../model/ip-block-codec.ts';
import type { IpBlock } from '../../model/ip-block.ts';
import type { NodeName } from '../../model/names.ts';
import { API_VERSION } from '../../model/resource.ts';
import type { ApiObject } from '../../orch-api/objects.ts';
import { borrowersOf } from '../borrowers.ts';
import type { Claim, Stored } from '../store.ts';
import {
  blockObjectName,
  cidrOfBlockName,
  holderLabel,
  NODE_ANNOTATION,
  NODE_LABEL,
  nodeLabelValue,
  sameBlockName,
} from './names.ts';
import { Unreadable } from './unreadable.ts';

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

/** Which object a version belongs to, and at which of its versions. */
export interface BlockVersion {
  readonly uid: string;
  readonly resourceVersion: string;
}

/** The object of a block: labels are an index that is written with it, the spec is the truth. */
export function blockObject(block: IpBlock, version?: BlockVersion): BlockObject {
  const { node } = block;
  const holders = [...borrowersOf(block).keys(), ...(node === undefined ? [] : [node])];
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
      annotations: node === undefined || value === node ? {} : { [NODE_ANNOTATION]: node },
      ...version,
    },
    spec: encodeBlock(block),
  };
}

export function readBlock(object: ApiObject): Stored<IpBlock> | Unreadable {
  const { name } = object.metadata;
  const decoded = decodeBlock(object['spec']);
  if ('problems' in decoded) return new Unreadable('IPBlock', name, decoded.problems.join('; '));
  if (!sameBlockName(name, decoded.block.cidr)) {
    return new Unreadable('IPBlock', name, `its CIDR belongs into "${blockObjectName(decoded.block.cidr)}"`);
  }
  return { value: decoded.block, version: formatVersion(versionOf(object)) };
}

/** What name and labels say, for those who need not read the block; undefined for a name that stands for no CIDR. */
export function readClaim({ metadata }: ApiObject): Claim | undefined {
  const cidr = cidrOfBlockName(metadata.name);
  if (cidr === undefined) return undefined;
  const node = metadata.annotations?.[NODE_ANNOTATION] ?? metadata.labels?.[NODE_LABEL];
  // Only netplug writes these, and only with node names.
  return { cidr, node: node as NodeName | undefined };
}

export function versionOf({ metadata }: ApiObject): BlockVersion {
  return { uid: metadata.uid ?? '', resourceVersion: metadata.resourceVersion ?? '' };
}

export function formatVersion({ uid, resourceVersion }: BlockVersion): string {
  return `${uid}/${resourceVersion}`;
}

export function parseVersion(text: string): BlockVersion {
  const [uid = '', resourceVersion = ''] = text.split('/');
  return { uid, resourceVersion };
}

import * as v from 'valibot';
import { decodeEndpoint } from '../../datastore/stored-resource.ts';
import { allocation, handle } from '../../model/ip-block-codec.ts';
import { type Cidr, cidrSize, tryReadCidr } from '../../net/cidr.ts';

const text = v.string();

const cidr = v.pipe(
  text,
  v.rawTransform<string, Cidr>(({ dataset, addIssue, NEVER }) => {
    const read = tryReadCidr(dataset.value);
    if (read !== undefined && !read.hostBits) return read.cidr;
    addIssue({ message: 'it is no CIDR' });
    return NEVER;
  }),
);
const place = { block: cidr, ordinal: v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(65_535)) };

const endpoint = v.custom((raw) => typeof decodeEndpoint(raw) !== 'string');

/** A line of a journal, with its CIDRs parsed. Keeps unknown fields. */
export const ENTRY = v.looseObject({
  slots: v.array(
    v.pipe(
      v.variant('kind', [
        v.looseObject({ kind: v.literal('take'), ...place, from: v.exactOptional(text), allocation }),
        v.looseObject({
          kind: v.literal('free'),
          ...place,
          id: text,
          handle,
          releasedAt: v.exactOptional(v.pipe(v.number(), v.integer())),
        }),
      ]),
      v.check(({ block, ordinal }) => ordinal < Number(cidrSize(block)), 'it lies outside the block'),
    ),
  ),
  endpoints: v.array(
    v.variant('kind', [
      v.looseObject({ kind: v.literal('put'), endpoint }),
      v.looseObject({
        kind: v.literal('clear'),
        id: v.looseObject({ node: text, namespace: text, name: text }),
        containerId: text,
        network: text,
        ipNetworks: v.exactOptional(v.array(text)),
        unlessHeld: v.exactOptional(v.boolean()),
      }),
    ]),
  ),
});

/** Raised when an older release would misunderstand an entry. */
const FORMAT = 2;

/** The first line of a segment. */
export const HEADER = v.looseObject({
  format: v.literal(FORMAT),
  node: text,
  run: text,
  datastore: text,
});

/** The first line of a segment of a newer release. */
export const NEWER_HEADER = v.looseObject({ format: v.pipe(v.number(), v.integer(), v.gtValue(FORMAT)) });

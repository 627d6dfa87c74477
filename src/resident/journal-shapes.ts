import * as v from 'valibot';
import { decodeEndpoint } from '../datastore/stored-resource.ts';
import { allocation, handle } from '../model/ip-block-codec.ts';
import { type Cidr, tryReadCidr } from '../net/cidr.ts';

const text = v.string();
const path = v.optional(v.string());

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

/** What a line of a journal says, with its CIDRs as values. Fields that are not known stay. */
export const ENTRY = v.looseObject({
  slots: v.array(
    v.variant('kind', [
      v.looseObject({ kind: v.literal('take'), ...place, from: v.exactOptional(text), allocation }),
      v.looseObject({ kind: v.literal('free'), ...place, id: text, handle }),
    ]),
  ),
  endpoints: v.array(
    v.variant('kind', [
      v.looseObject({ kind: v.literal('put'), endpoint }),
      v.looseObject({
        kind: v.literal('clear'),
        id: v.looseObject({ node: text, namespace: text, name: text }),
        containerId: text,
        network: text,
      }),
    ]),
  ),
});

/** The first line of a segment. */
export const HEADER = v.looseObject({
  format: v.literal(1),
  node: text,
  run: text,
  datastore: v.variant('type', [
    v.looseObject({
      type: v.literal('kvv3'),
      connection: v.looseObject({
        endpoints: v.variant('from', [
          v.looseObject({ from: v.literal('list'), urls: v.array(text) }),
          v.looseObject({ from: v.literal('srv'), domain: text }),
        ]),
        keyFile: path,
        certFile: path,
        caCertFile: path,
      }),
    }),
    v.looseObject({
      type: v.literal('orch'),
      orch: v.looseObject({ orchconfig: path, apiRoot: path, nodeName: path }),
    }),
  ]),
});

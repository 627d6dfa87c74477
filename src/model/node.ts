import * as v from 'valibot';
import { tryParseAddress } from '../net/address.ts';
import type { Resource } from './resource.ts';

const AddressEntry = v.pipe(
  v.looseObject(
    {
      address: v.pipe(
        v.string('an IP address'),
        v.check((text) => tryParseAddress(text) !== undefined, 'an IP address'),
      ),
      type: v.picklist(['NodeIP', 'InternalIP', 'ExternalIP'], '"NodeIP", "InternalIP" or "ExternalIP"'),
    },
    'an object with address and type',
  ),
  v.readonly(),
);

export const NODE_FIELDS = {
  addresses: v.optional(
    v.pipe(
      v.array(AddressEntry, 'an array of objects with address and type'),
      v.readonly(),
      v.description('Addresses of the node itself, for people and for routing.'),
    ),
  ),
};

export interface NodeSpec {
  readonly addresses?: readonly Readonly<Pick<v.InferOutput<typeof AddressEntry>, 'address' | 'type'>>[];
}
/** Labels live in `metadata.labels`; pools select nodes by them. */
export type Node = Resource<'Node', NodeSpec>;

import * as v from 'valibot';
import { tryParseAddress } from '../net/address.ts';
import { formatCidr, hostCidr, tryReadCidr } from '../net/cidr.ts';
import { parseSelector } from './selector-parser.ts';

/** Building blocks of the specs of resources. Messages complete "allowed is …". */
export function flag(byDefault: boolean): v.OptionalSchema<v.BooleanSchema<string>, boolean> {
  return v.optional(v.boolean('true or false, without quotes'), byDefault);
}

/** A CIDR in canonical text, host bits clear. */
export const CidrText = v.pipe(
  v.string('a CIDR, as a string'),
  v.rawTransform(({ dataset, addIssue, NEVER }) => {
    const reading = tryReadCidr(dataset.value);
    if (reading !== undefined && !reading.hostBits) return formatCidr(reading.cidr);
    const message = reading === undefined ? 'a CIDR' : `a CIDR without host bits, here "${formatCidr(reading.cidr)}"`;
    addIssue({ message });
    return NEVER;
  }),
  // What the orchestrator's API calls the same thing.
  v.metadata({ format: 'cidr' }),
);

/** A CIDR, or one address, which becomes a CIDR of its own. */
export const CidrOrAddressText = v.pipe(
  v.string('a CIDR or an IP address, as a string'),
  v.transform((text) => {
    const address = tryParseAddress(text);
    return address === undefined ? text : formatCidr(hostCidr(address));
  }),
  CidrText,
);

/** A selector over labels; an empty one selects everything. */
export const SelectorText = v.pipe(
  v.string('a selector, as a string'),
  v.rawTransform(({ dataset, addIssue, NEVER }) => {
    const parsed = parseSelector(dataset.value);
    if ('selector' in parsed) return dataset.value.trim() === '' ? 'all()' : dataset.value;
    addIssue({ message: `a selector; ${parsed.error} at character ${String(parsed.at + 1)}` });
    return NEVER;
  }),
);

import * as v from 'valibot';
import { field, objectWith, oneOf, optionalField } from './field.ts';
import { type Family, tryParseAddress } from '../net/address.ts';
import { formatCidr, hostCidr, tryReadCidr } from '../net/cidr.ts';
import { tryParseMac } from '../net/mac.ts';
import { parseSelector } from './selector-parser.ts';

/** Building blocks of the specs of resources. Messages complete "allowed is …". */
export const TrueOrFalse = v.boolean('true or false, without quotes');

export function flag(byDefault: boolean): v.OptionalSchema<v.BooleanSchema<string>, boolean> {
  return v.optional(TrueOrFalse, byDefault);
}

type WholeNumber = v.SchemaWithPipe<
  readonly [
    v.NumberSchema<string>,
    v.IntegerAction<number, string>,
    v.MinValueAction<number, number, string>,
    v.MaxValueAction<number, number, string>,
  ]
>;

/** `unit` in the plural, such as `seconds`. */
export function wholeNumber(least: number, most: number, unit?: string): WholeNumber {
  const what = unit === undefined ? 'a whole number' : `a whole number of ${unit}`;
  const text = `${what} from ${String(least)} to ${String(most)}`;
  return v.pipe(v.number(text), v.integer(text), v.minValue(least, text), v.maxValue(most, text));
}

const CanonicalCidr = v.pipe(
  v.string('a CIDR, as a string'),
  v.rawTransform(({ dataset, addIssue, NEVER }) => {
    const reading = tryReadCidr(dataset.value);
    if (reading !== undefined && !reading.hostBits) return formatCidr(reading.cidr);
    const message = reading === undefined ? 'a CIDR' : `a CIDR without host bits, here "${formatCidr(reading.cidr)}"`;
    addIssue({ message });
    return NEVER;
  }),
);

/** A CIDR in canonical text, host bits clear. */
export const CidrText = v.pipe(
  CanonicalCidr, // The name of this format in the orchestrator's API.
  v.metadata({ format: 'cidr' }),
);

/** A CIDR, or one address, which becomes a /32 or /128. */
export const CidrOrAddressText = v.pipe(
  v.string('a CIDR or an IP address, as a string'),
  v.transform((text) => {
    const address = text.includes('/') ? undefined : tryParseAddress(text);
    return address === undefined ? text : formatCidr(hostCidr(address));
  }),
  CanonicalCidr,
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

export const AddressText = v.pipe(
  v.string('an IP address'),
  v.check((text) => tryParseAddress(text) !== undefined, 'an IP address'),
);

type CheckedText = v.SchemaWithPipe<readonly [v.StringSchema<string>, v.CheckAction<string, string>]>;

/** An address of the family. */
export function addressText(family: Family): CheckedText {
  const text = `an IPv${String(family)} address`;
  return v.pipe(
    v.string(text),
    v.check((found) => tryParseAddress(found)?.family === family, text),
  );
}

/** An address of the family with the prefix length of the subnet it is in, such as `192.0.2.7/24`. */
export function addressWithPrefixText(family: Family): CheckedText {
  const text = `an IPv${String(family)} address with a prefix length`;
  return v.pipe(
    v.string(text),
    v.check((found) => tryReadCidr(found)?.address.family === family, text),
  );
}

export const MacText = v.pipe(
  v.string('a MAC address'),
  v.check((text) => tryParseMac(text) !== undefined, 'a MAC address'),
);

/** An AS number as a number, 4 bytes wide. */
export const AsNumber = wholeNumber(1, 4_294_967_295);

/** The one folder of files with passwords. Only its plain names are allowed: no folder in it, and no way out of it. */
export const PASSWORD_FOLDER = '/etc/netplug/bgp';
const PASSWORD_FILE = /^\/etc\/netplug\/bgp\/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;
const ALLOWED_FILE = `a file directly in ${PASSWORD_FOLDER}, such as "${PASSWORD_FOLDER}/rack-a"`;

/** A key of a Secret of the orchestrator, or a file on the node. */
export const PasswordSource = v.pipe(
  objectWith('secretKeyRef or file', {
    secretKeyRef: optionalField(
      objectWith('name and key', {
        name: field(v.string('a string'), 'Name of the Secret.'),
        key: field(v.string('a string'), 'Key in it.'),
      }),
      "A Secret in the namespace of netplug's agents.",
    ),
    file: optionalField(
      v.pipe(v.string(ALLOWED_FILE), v.regex(PASSWORD_FILE, ALLOWED_FILE)),
      `A file on each node, directly in ${PASSWORD_FOLDER}: a regular file of at most 4 KiB.`,
    ),
  }),
  v.check(
    ({ secretKeyRef, file }) => (secretKeyRef === undefined) !== (file === undefined),
    'an object with secretKeyRef or file, not both',
  ),
);

/** BFD beside a session of BGP (RFC 5880). */
export const BfdSettings = objectWith('intervalMs and multiplier', {
  intervalMs: field(
    v.optional(wholeNumber(50, 10_000, 'milliseconds'), 300),
    'Time between two packets of BFD, sent and received; the larger one of both sides applies.',
  ),
  multiplier: field(
    v.optional(wholeNumber(2, 50), 3),
    'How many packets in a row must be missing before the other side takes this one for lost.',
  ),
});

/** A switch, in the words of an Installation. */
export const Switch = oneOf(['Enabled', 'Disabled']);

export const LogSeverity = oneOf(['Debug', 'Info', 'Warning', 'Error']);

const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;

/** Returns the milliseconds of a duration such as `90s`; undefined for another text. */
export function tryReadDuration(text: string): number | undefined {
  const { count, unit } = /^(?<count>[1-9]\d{0,6})(?<unit>ms|s|m|h)$/.exec(text)?.groups ?? {};
  // The pattern has these units alone.
  return count === undefined ? undefined : Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
}

/** A duration such as `90s`. */
export const DurationText = v.pipe(
  v.string('a time such as "90s", "5m" or "1h"'),
  v.check((text) => tryReadDuration(text) !== undefined, 'a time such as "90s", "5m" or "1h"'),
);

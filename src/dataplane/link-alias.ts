import { NetplugError } from '../base/errors.ts';
import { type Address, formatAddress, tryParseAddress } from '../net/address.ts';
import type { LinkOwner } from './kernel.ts';

const ALIAS_BYTES = 255;
const PREFIX = 'netplug';
/** Begins the field of the addresses, which no mark of a pod does. */
const ADDRESSES = '@';

/**
 * Encodes the owner as one line of at most 255 bytes: `netplug <containerId> <ifName> [<podMark>] [@<addresses>] <network>`. White
 * space and control characters are percent-escaped. A network name that does not fit is truncated, so the decoded name must not
 * be compared for identity; use `isLinkOf`. Addresses that do not fit are left out.
 * @throws kernel/failed when container and interface alone do not fit
 */
export function encodeAlias(owner: LinkOwner, addresses: readonly Address[] = []): string {
  const { containerId, ifName, network, podMark } = owner;
  const listed = addresses.length === 0 ? [] : [ADDRESSES + addresses.map(formatAddress).join()];
  const start = [
    PREFIX,
    escape(containerId),
    escape(ifName),
    ...(podMark === undefined ? [] : [escape(podMark)]),
    ...listed,
    '',
  ].join(' ');
  if (listed.length > 0 && Buffer.byteLength(start) > ALIAS_BYTES) return encodeAlias(owner);
  const whole = start + escape(network);
  if (Buffer.byteLength(whole) <= ALIAS_BYTES) return whole;
  let alias = start;
  for (const character of network) {
    const longer = alias + escape(character);
    if (Buffer.byteLength(longer) > ALIAS_BYTES) break;
    alias = longer;
  }
  if (Buffer.byteLength(start) <= ALIAS_BYTES) return alias;
  const what = `container "${containerId}" as owner of interface "${ifName}"`;
  throw new NetplugError('kernel/failed', `Cannot record ${what}: together they are longer than a link alias`, {
    facts: { containerId, ifName },
  });
}

/** Reports whether a link with this owner may belong to the network, considering that its name may be truncated. */
export function isLinkOf(owner: LinkOwner, network: string): boolean {
  return owner.network === network || decodeAlias(encodeAlias({ ...owner, network }))?.network === owner.network;
}

/** Returns the owner in the alias; undefined for an alias that is not netplug's. */
export function decodeAlias(alias: string): LinkOwner | undefined {
  const [prefix, containerId, ifName, ...rest] = alias.split(' ').map(unescape);
  const network = rest.pop();
  if (prefix !== PREFIX || containerId === undefined || ifName === undefined || network === undefined) return undefined;
  if (rest.at(-1)?.startsWith(ADDRESSES) === true) rest.pop();
  const [podMark] = rest;
  if (rest.length > 1) return undefined;
  return { containerId, ifName, network, ...(podMark === undefined ? {} : { podMark }) };
}

/** Returns the addresses in the alias, which an ADD writes last of all; none before, nor where they did not fit. */
export function addressesInAlias(alias: string): readonly Address[] {
  const [, , , ...rest] = decodeAlias(alias) === undefined ? [] : alias.split(' ');
  const field = rest.at(-2);
  if (field?.startsWith(ADDRESSES) !== true) return [];
  return field
    .slice(ADDRESSES.length)
    .split(',')
    .flatMap((text) => tryParseAddress(text) ?? []);
}

function escape(text: string): string {
  return text.replaceAll(/[%\s\p{Cc}\p{Cs}]/gu, (character) =>
    [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join(''),
  );
}

function unescape(text: string): string {
  const runs = text.replaceAll(/(?:%[0-9a-f]{2})+/g, (run) =>
    Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'),
  );
  return runs;
}

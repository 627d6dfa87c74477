import { NetplugError } from '../base/errors.ts';
import type { LinkOwner } from './kernel.ts';

const ALIAS_BYTES = 255;
const WORD = 'netplug';

/**
 * The owner as one readable line of at most 255 bytes: `netplug <containerId> <ifName> <network>`. Characters that
 * would break the line up are percent-escaped. Container and interface always survive whole; a network name that does
 * not fit is cut, so what is decoded may be the beginning of the real name and must not be compared for identity.
 * @throws kernel/failed when container and interface alone do not fit
 */
export function encodeAlias({ containerId, ifName, network }: LinkOwner): string {
  const start = [WORD, escape(containerId), escape(ifName), ''].join(' ');
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

/** Whether a link with this owner in its alias may be of the network: of a name that was cut, only the beginning is known. */
export function isLinkOf(owner: LinkOwner, network: string): boolean {
  return owner.network === network || decodeAlias(encodeAlias({ ...owner, network }))?.network === owner.network;
}

/** Undefined for an alias that is not ours. */
export function decodeAlias(alias: string): LinkOwner | undefined {
  const [word, containerId, ifName, network, ...rest] = alias.split(' ').map(unescape);
  if (word !== WORD || containerId === undefined || ifName === undefined || network === undefined) return undefined;
  return rest.length > 0 ? undefined : { containerId, ifName, network };
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

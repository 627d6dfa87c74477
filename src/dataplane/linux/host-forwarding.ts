import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { NetplugError, errnoOf } from '../../base/errors.ts';
import type { ForwardingRecorder } from './forwarding-record.ts';

const CONF = '/proc/sys/net/ipv6/conf';

export interface ForwardingOptions {
  /** Called before anything changes. */
  readonly record?: ForwardingRecorder;
  readonly conf?: string;
}

/**
 * Lets the host forward IPv6 from `hostLinkName`. A kernel that can switch on single links (6.17) needs nothing here.
 * Older ones know only the switch for the whole host.
 * @throws kernel/failed
 */
export function ensureIpv6Forwarding(hostLinkName: string, { conf = CONF, record }: ForwardingOptions = {}): void {
  if (existsSync(join(conf, hostLinkName, 'force_forwarding'))) return;
  switchOnIpv6Forwarding({ conf, exceptLink: hostLinkName, ...(record === undefined ? {} : { record }) });
}

/**
 * Lets the whole host forward IPv6; says whether it did not before. The switch also makes every interface a router that
 * ignores router advertisements; so interfaces that listened to them are first told to go on listening, but for
 * `exceptLink`. Shared by all pods, hence taken back with the whole node only.
 * @throws kernel/failed
 */
export function switchOnIpv6Forwarding({
  exceptLink,
  record,
  conf = CONF,
}: ForwardingOptions & { readonly exceptLink?: string } = {}): boolean {
  try {
    const everywhere = join(conf, 'all/forwarding');
    if (read(everywhere) !== '0') return false;
    record?.(6);
    const others = readdirSync(conf).filter((name) => name !== 'all' && name !== exceptLink);
    for (const name of others) keepListening(join(conf, name, 'accept_ra'));
    writeFileSync(everywhere, '1');
    return true;
  } catch (cause) {
    const errno = errnoOf(cause) ?? String(cause);
    throw new NetplugError('kernel/failed', `Cannot let the host forward IPv6: the kernel says ${errno}`, {
      hint: 'Set sysctl net.ipv6.conf.all.forwarding to 1 when the host starts',
      facts: { errno },
      cause,
    });
  }
}

/** From 1, "unless forwarding", to 2, "always". */
function keepListening(acceptRa: string): void {
  try {
    if (read(acceptRa) === '1') writeFileSync(acceptRa, '2');
  } catch (cause) {
    // An interface may go away at any time.
    if (errnoOf(cause) !== 'ENOENT') throw cause;
  }
}

function read(path: string): string {
  return readFileSync(path, 'utf8').trim();
}

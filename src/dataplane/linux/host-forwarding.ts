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
 * Enables IPv6 forwarding from `hostLinkName`. Does nothing on a kernel that can enable it for single links (6.17); on
 * an older one, enables it for the whole host.
 * @throws kernel/failed
 */
export function ensureIpv6Forwarding(hostLinkName: string, { conf = CONF, record }: ForwardingOptions = {}): void {
  if (existsSync(join(conf, hostLinkName, 'force_forwarding'))) return;
  switchOnIpv6Forwarding({ conf, exceptLink: hostLinkName, ...(record === undefined ? {} : { record }) });
}

/**
 * Enables IPv6 forwarding of the whole host; returns false when it was enabled. Forwarding makes interfaces ignore router
 * advertisements, so every interface that accepted them, except `exceptLink`, is first set to accept them always. All
 * pods share the setting, so only an uninstall restores it.
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
    for (const name of others) keepAcceptingAdvertisements(join(conf, name, 'accept_ra'));
    writeFileSync(everywhere, '1');
    return true;
  } catch (cause) {
    const errno = errnoOf(cause) ?? String(cause);
    throw new NetplugError('kernel/failed', `Cannot enable IPv6 forwarding on the host: the kernel says ${errno}`, {
      hint: 'Set sysctl net.ipv6.conf.all.forwarding to 1 when the host starts',
      facts: { errno },
      cause,
    });
  }
}

/** Changes accept_ra from 1, "unless forwarding", to 2, "always". */
function keepAcceptingAdvertisements(acceptRa: string): void {
  try {
    if (read(acceptRa) === '1') writeFileSync(acceptRa, '2');
  } catch (cause) {
    // An interface may be removed at any time.
    if (errnoOf(cause) !== 'ENOENT') throw cause;
  }
}

function read(path: string): string {
  return readFileSync(path, 'utf8').trim();
}

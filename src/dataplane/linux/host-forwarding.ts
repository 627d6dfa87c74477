import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { NetplugError, errnoOf } from '../../base/errors.ts';

const CONF = '/proc/sys/net/ipv6/conf';

/**
 * Lets the host forward IPv6 from `hostLinkName`. A kernel that can switch on single links (6.17) needs nothing here.
 * Older ones know only the switch for the whole host.
 * @throws kernel/failed
 */
export function ensureIpv6Forwarding(hostLinkName: string, conf: string = CONF): void {
  if (!existsSync(join(conf, hostLinkName, 'force_forwarding'))) switchOnIpv6Forwarding(hostLinkName, conf);
}

/**
 * Lets the whole host forward IPv6; says whether it did not before. The switch also makes every interface a router that
 * ignores router advertisements; so interfaces that listened to them are first told to go on listening, but for
 * `exceptLink`. Shared by all pods, hence never taken back.
 * @throws kernel/failed
 */
export function switchOnIpv6Forwarding(exceptLink?: string, conf: string = CONF): boolean {
  try {
    const everywhere = join(conf, 'all/forwarding');
    if (read(everywhere) !== '0') return false;
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

import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const CONF = '/proc/sys/net/ipv6/conf';

/**
 * Lets the host forward IPv6 from `hostLinkName`. A kernel that can switch on single links (6.17) needs nothing here.
 * Older ones know only the switch for the whole host, which also makes every interface a router that ignores router
 * advertisements; so interfaces that listened to them are first told to go on listening. Shared by all pods, hence
 * never taken back.
 */
export function ensureIpv6Forwarding(hostLinkName: string, conf: string = CONF): void {
  if (existsSync(join(conf, hostLinkName, 'force_forwarding'))) return;
  const everywhere = join(conf, 'all/forwarding');
  if (read(everywhere) !== '0') return;
  for (const name of readdirSync(conf)) {
    if (name === 'all' || name === hostLinkName) continue;
    const acceptRa = join(conf, name, 'accept_ra');
    // 2: also when forwarding. An interface may go away while we look.
    if (existsSync(acceptRa) && read(acceptRa) === '1') writeFileSync(acceptRa, '2');
  }
  writeFileSync(everywhere, '1');
}

function read(path: string): string {
  return readFileSync(path, 'utf8').trim();
}

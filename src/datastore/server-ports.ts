import { lookup } from 'node:dns/promises';
import { protocolNumber } from '../model/protocol.ts';
import type { ServicePort } from '../model/service-endpoints.ts';
import { tryParseAddress } from '../net/address.ts';

/** Returns the addresses of a host name. @throws the system's error when there are none, or DNS does not answer */
type LookUpHost = (name: string) => Promise<readonly string[]>;

/** Returns where the origins are served. A name that cannot be looked up is left out. */
export async function serverPorts(
  origins: readonly string[],
  lookUp: LookUpHost = lookUpHost,
): Promise<readonly ServicePort[]> {
  const found = await Promise.all(
    origins.map(async (origin) => {
      const { hostname, port, protocol } = new URL(origin);
      const name = hostname.replace(/^\[(.*)\]$/, '$1');
      const texts = tryParseAddress(name) === undefined ? await lookUp(name).catch(() => []) : [name];
      const number = port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port);
      return texts
        .map(tryParseAddress)
        .filter((address) => address !== undefined)
        .map((address) => ({ address, protocol: protocolNumber('TCP'), port: number }));
    }),
  );
  return found.flat();
}

async function lookUpHost(name: string): Promise<readonly string[]> {
  return (await lookup(name, { all: true })).map(({ address }) => address);
}

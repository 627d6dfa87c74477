// Packets in VXLAN as any program can send them, and whether a device gets them.
import { createSocket } from 'node:dgram';
import { VXLAN_PORT, VXLAN_VNI } from '../../src/routing/tunnels.ts';
import type { TestNetns } from './netns.ts';
import { within } from './tcp-echo.ts';

const LOOKS = 10;
const LOOK_MS = 50;

export interface VxlanSending {
  readonly from: TestNetns;
  readonly to: string;
  readonly source?: string;
  /** That of netplug unless given. */
  readonly vni?: number;
}

export async function sendVxlan({ from, to, source, vni = VXLAN_VNI }: VxlanSending): Promise<void> {
  await within(from, async () => {
    const socket = createSocket(to.includes(':') ? 'udp6' : 'udp4');
    const bound = Promise.withResolvers<void>();
    socket.once('error', (cause) => bound.reject(cause));
    socket.bind({ port: 0, ...(source === undefined ? {} : { address: source }) }, () => bound.resolve());
    await bound.promise;
    const sent = Promise.withResolvers<void>();
    socket.send(vxlanFrame(vni), VXLAN_PORT, to, () => sent.resolve());
    await sent.promise;
    socket.close();
  });
}

/** The header of VXLAN, and an Ethernet frame. */
export function vxlanFrame(vni: number): Buffer {
  const header = Buffer.from([8, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUIntBE(vni, 4, 3);
  const macs = Buffer.from('0a0000000007020000000099', 'hex');
  return Buffer.concat([header, macs, Buffer.from([0x08, 0x00]), Buffer.alloc(64)]);
}

/** Whether the device gets a packet meanwhile. */
export async function isReceived(host: TestNetns, device: string, during: () => Promise<void>): Promise<boolean> {
  const count = async (): Promise<number> => {
    const [link] = await host.ip('-s', 'link', 'show', 'dev', device);
    return Number(link?.['stats64']?.['rx']?.['packets']) + Number(link?.['stats64']?.['rx']?.['dropped']);
  };
  const before = await count();
  await during();
  // Neighbours have to be found first.
  for (let look = 0; look < LOOKS; look += 1) {
    if ((await count()) > before) return true;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return false;
}

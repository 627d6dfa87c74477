import type { Addon } from './addon.ts';
import { kernelFailure } from './route-socket.ts';

/**
 * Who computes the checksums of packets inside a VXLAN device: `software` the kernel, `offload` whoever carries them
 * on, `auto` the kernel where that is necessary.
 */
export type VxlanChecksums = 'auto' | 'software' | 'offload';

const SOUND_SINCE = { major: 5, minor: 8 } as const;

/**
 * Older kernels leave the inner checksum wrong with some drivers when the outer packet is translated on its way.
 * @param release of the running kernel, as `uname -r` prints it
 */
export function wantedChecksums(choice: VxlanChecksums, release: string): 'software' | 'offload' | 'any' {
  if (choice !== 'auto') return choice;
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(release)?.map(Number) ?? [];
  if (major === undefined || minor === undefined) return 'any';
  const isOld = major < SOUND_SINCE.major || (major === SOUND_SINCE.major && minor < SOUND_SINCE.minor);
  return isOld ? 'software' : 'any';
}

/** Says whether something had to be changed. @throws kernel/failed */
export function ensureChecksums(addon: Addon, device: string, wanted: 'software' | 'offload' | 'any'): boolean {
  if (wanted === 'any') return false;
  const value = wanted === 'offload' ? 1 : 0;
  const now = addon.txChecksum(device);
  if (now < 0) throw kernelFailure(`read the checksum offload of tunnel "${device}"`, -now);
  if (now === value) return false;
  const result = addon.setTxChecksum(device, value);
  if (result < 0) throw kernelFailure(`switch the checksum offload of tunnel "${device}"`, -result);
  return true;
}

import type { Addon } from './addon.ts';
import { kernelFailure } from './route-socket.ts';

/** Place where checksums of packets inside a VXLAN device are computed: in the kernel, in the device, or as needed. */
export type VxlanChecksums = 'auto' | 'software' | 'offload';

const CORRECT_SINCE = { major: 5, minor: 8 } as const;

/**
 * Returns where checksums are computed. With some drivers, kernels before 5.8 compute a wrong inner checksum when the
 * outer packet is translated.
 * @param release of the running kernel, as `uname -r` prints it
 */
export function wantedChecksums(choice: VxlanChecksums, release: string): 'software' | 'offload' | 'any' {
  if (choice !== 'auto') return choice;
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(release)?.map(Number) ?? [];
  if (major === undefined || minor === undefined) return 'any';
  const isOld = major < CORRECT_SINCE.major || (major === CORRECT_SINCE.major && minor < CORRECT_SINCE.minor);
  return isOld ? 'software' : 'any';
}

/** Sets the checksum offload of the device; reports whether it changed. @throws kernel/failed */
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

import { isNewerVersion } from '../base/compare-versions.ts';

/** Bounds of what netplug supports, in numbers of releases. docs/requirements.md has their reasons. */
export const REQUIREMENTS = {
  kubernetes: { oldest: '1.34', newest: '1.37' },
  containerd: { oldest: '2.0' },
  kernel: { oldest: '5.10' },
} as const;

export const ARCHITECTURES: readonly string[] = ['amd64', 'arm64'];

/** Reports whether a version is older than the oldest supported one. A text without a version is not. */
export function isTooOld(part: keyof typeof REQUIREMENTS, version: string): boolean {
  const numbers = /^v?(\d+(?:\.\d+)+)/.exec(version.trim())?.[1] ?? '';
  return isNewerVersion(REQUIREMENTS[part].oldest, numbers);
}

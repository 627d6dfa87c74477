import { NetplugError } from '../base/errors.ts';
import { CNI_VERSIONS, type CniVersion } from '../config/netconf.ts';
import type { CniVerb } from './invocation.ts';

const SINCE: Readonly<Partial<Record<CniVerb, CniVersion>>> = { CHECK: '0.4.0', GC: '1.1.0', STATUS: '1.1.0' };

/** Returns the answer to VERSION (CNI 1.1.0, section 2): the requested version, else the newest, and all supported ones. */
export function versionAnswer(asked: CniVersion | undefined): Record<string, unknown> {
  return { cniVersion: asked ?? CNI_VERSIONS.at(-1), supportedVersions: CNI_VERSIONS };
}

/** @throws cni/version-unsupported when the configuration's version has no such verb */
export function assertVerbAllowed(command: CniVerb, version: CniVersion): void {
  const since = SINCE[command];
  if (since === undefined || CNI_VERSIONS.indexOf(version) >= CNI_VERSIONS.indexOf(since)) return;
  throw new NetplugError(
    'cni/version-unsupported',
    `Cannot serve ${command}: cniVersion "${version}" has no such verb`,
    {
      hint: `Set cniVersion to "${since}" or later`,
    },
  );
}

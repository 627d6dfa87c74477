/** Digests of images by the last part of their names, such as `netplug-node`. */
export type ImageDigests = ReadonlyMap<string, string>;

/** Variable that tells the operator the digests: an image cannot contain its own. */
export const DIGESTS_VARIABLE = 'NETPLUG_IMAGE_DIGESTS';
const ENTRY = /^([a-z0-9-]+)=(sha256:[0-9a-f]{64})$/;

/** Returns the digests of a text such as `netplug=sha256:…,netplug-node=sha256:…`; undefined for another text. */
export function decodeDigests(text: string): ImageDigests | undefined {
  const entries = text === '' ? [] : text.split(',').map((each) => ENTRY.exec(each));
  if (entries.includes(null)) return undefined;
  return new Map(entries.map((entry) => [entry?.[1] ?? '', entry?.[2] ?? '']));
}

export function encodeDigests(digests: ImageDigests): string {
  return [...digests].map(([name, digest]) => `${name}=${digest}`).join(',');
}

/** Set by the build of a release. */
declare const BUILT_IN_DIGESTS: string;

/** Digests of the images of this release, in programs that were built after its images. Others have none, and go by the tag. */
export const RELEASE_DIGESTS: ImageDigests =
  (typeof BUILT_IN_DIGESTS === 'undefined' ? undefined : decodeDigests(BUILT_IN_DIGESTS)) ?? new Map<string, string>();

/** Returns the release that an image's tag names, such as `v3.26.1`; undefined for another tag. */
export function releaseIn(image: string): string | undefined {
  return /:(v\d+\.\d+\.\d+)(?:[-@]|$)/.exec(image)?.[1];
}

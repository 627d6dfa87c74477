/** The version of every program; equal to the version in package.json. */
export const VERSION = 'v3.27.0';

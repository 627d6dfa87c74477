/** The one version of every program; package.json says the same. */
export const VERSION = 'v3.27.0';

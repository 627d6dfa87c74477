/** `dry-run` makes every check and changes nothing. */
export type Mode = 'apply' | 'dry-run';

/** `rehearse` makes every check and changes nothing. */
export type Mode = 'carry-out' | 'rehearse';

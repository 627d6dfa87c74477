/** `rehearse`: every check is made, and nothing is changed. */
export type Mode = 'carry-out' | 'rehearse';

/** Policy or profile that has the rules. */
export interface RuleOwner {
  readonly kind: 'policy' | 'profile';
  /** Id of the policy or name of the profile. */
  readonly name: string;
}

export function ownerKey({ kind, name }: RuleOwner): string {
  return `${kind} ${name}`;
}

/** Returns the owner of that key; undefined for another text. */
export function ownerOfKey(key: string): RuleOwner | undefined {
  const [kind, ...name] = key.split(' ');
  return kind === 'policy' || kind === 'profile' ? { kind, name: name.join(' ') } : undefined;
}

/** The rules of one policy or profile cannot be compiled. Those of others can. */
export class UnusableRules extends Error {
  readonly owner: RuleOwner;

  constructor(owner: RuleOwner, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.name = 'UnusableRules';
    this.owner = owner;
  }
}

import type { SourceCheck } from '../../../dataplane/kernel.ts';
import type { NodeName } from '../../../model/names.ts';
import type { Family } from '../../../net/address.ts';
import type { Detection } from '../../../routing/detect-address-method.ts';
import type { BlockSource } from '../../../routing/membership.ts';

/** What the environment of the agent says of the network of its node. */
export interface NetworkSettings {
  readonly node: NodeName;
  readonly detection: Readonly<Record<Family, Detection>>;
  readonly blockSource: BlockSource;
  readonly sourceCheck: SourceCheck;
}

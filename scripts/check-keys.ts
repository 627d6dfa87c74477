// Fails when a key that is only known as text indexes an object in brackets or with `in`: each object has `constructor`,
// and a label, a name or an annotation may be called so. `ownValue`, `Object.hasOwn` and Map are what reads such keys.
import { API, type Checker, type Type, TypeFlags } from 'typescript/unstable/sync';
import { type Expression, type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast';
import { isBinaryExpression, isElementAccessExpression } from 'typescript/unstable/ast/is';

interface Access {
  readonly node: Node;
  readonly key: Expression;
}

const OPEN = TypeFlags.String | TypeFlags.TemplateLiteral | TypeFlags.StringMapping | TypeFlags.Any | TypeFlags.Unknown;
const GENERIC = TypeFlags.TypeParameter | TypeFlags.Index | TypeFlags.IndexedAccess | TypeFlags.Conditional;
/** The one place that reads such a key, after it has looked whether the object itself has it. */
const READER = 'src/base/own-value.ts';

const api = new API({ cwd: process.cwd() });
const [project] = api.updateSnapshot({ openProjects: ['tsconfig.json'] }).getProjects();
if (project === undefined) throw new Error('tsconfig.json is no project');
const { program, checker } = project;
const found: string[] = [];
let accesses = 0;
for (const name of project.rootFiles) {
  const path = name.slice(process.cwd().length + 1);
  const file = program.getSourceFile(name);
  if (file === undefined || !path.startsWith('src/') || path.endsWith('.test.ts') || path === READER) continue;
  const all = accessesIn(file);
  accesses += all.length;
  const keys = checker.getTypeAtLocation(all.map(({ key }) => key));
  for (const [at, { node }] of all.entries()) {
    const key = keys[at];
    if (key === undefined || !isOpen(checker, key)) continue;
    const line = file.text.slice(0, node.end).split('\n').length;
    const text = file.text.slice(node.pos, node.end).trim().replaceAll(/\s+/g, ' ');
    found.push(`${path}:${String(line)}: ${text}: the key may be any text; use ownValue, Object.hasOwn or a Map`);
  }
}
api.close();
if (accesses === 0) found.push('saw no object indexed at all: the checker itself is broken');
for (const line of found) console.error(line);
process.exitCode = found.length === 0 ? 0 : 1;

function accessesIn(file: SourceFile): Access[] {
  const all: Access[] = [];
  const visit = (node: Node): void => {
    if (isElementAccessExpression(node)) all.push({ node, key: node.argumentExpression });
    if (isBinaryExpression(node) && node.operatorToken.kind === SyntaxKind.InKeyword)
      all.push({ node, key: node.left });
    node.forEachChild(visit);
  };
  visit(file);
  return all;
}

/** Reports whether the type has texts that no closed list has. */
function isOpen(types: Checker, type: Type): boolean {
  if ((type.flags & OPEN) !== 0) return true;
  if (type.isUnionType() || type.isIntersectionType()) return type.getTypes().some((part) => isOpen(types, part));
  if ((type.flags & GENERIC) === 0) return false;
  const constraint = types.getBaseConstraintOfType(type);
  return constraint !== undefined && constraint !== type && isOpen(types, constraint);
}

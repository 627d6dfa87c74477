import { isRecord } from '../../../model/read-schema.ts';
import { readDocuments, type DocumentSource, withoutByteOrderMark } from '../documents.ts';
import { isNetplugEntry } from '../../../config/lint-conflist.ts';

/** Keys of Kubernetes and netplug objects, to recognize a text with syntax errors. */
const OBJECT_KEY = /(?:^|[{[,]|- )[ \t]*["']?(?:apiVersion|kind)["']?\s*:/m;
const NETCONF_KEY = /(?:^|[{[,]|- )[ \t]*["']?(?:cniVersion|ipam|plugins)["']?\s*:/m;

/** Returns how to read a text: by its file name, or else by its keys, even with syntax errors. */
export function meaningOf(source: DocumentSource): 'objects' | 'netconf' {
  if (isNamedAsYaml(source)) return 'objects';
  if (isNamedAsNetconf(source)) return 'netconf';
  const signs = signsIn(source);
  if (signs.ofObjects || signs.ofNetconf) return signs.ofObjects ? 'objects' : 'netconf';
  return /^\s*(?:[{[]|$)/.test(withoutByteOrderMark(source.text)) ? 'netconf' : 'objects';
}

/** Reports whether a file found in a folder is a network configuration or contains objects. */
export function showsToBeOurs(source: DocumentSource): boolean {
  if (isNamedAsNetconf(source)) return true;
  const { ofObjects, ofNetconf } = signsIn(source);
  return ofObjects || (ofNetconf && !isNamedAsYaml(source));
}

function isNamedAsYaml({ name }: DocumentSource): boolean {
  return /\.ya?ml$/.test(name);
}

function isNamedAsNetconf({ name }: DocumentSource): boolean {
  return /\.conf(list)?$/.test(name);
}

function signsIn(source: DocumentSource): { readonly ofObjects: boolean; readonly ofNetconf: boolean } {
  const reading = { code: 'resource/invalid', repeatedKeys: 'last-counts' } as const;
  const { documents, problems } = readDocuments(source, reading);
  const isBroken = problems.length > 0;
  return {
    ofObjects: documents.some(({ value }) => looksLikeObject(value)) || (isBroken && OBJECT_KEY.test(source.text)),
    ofNetconf: documents.some(({ value }) => looksLikeNetconf(value)) || (isBroken && NETCONF_KEY.test(source.text)),
  };
}

function looksLikeObject(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(looksLikeObject);
  return isRecord(value) && ('apiVersion' in value || 'kind' in value);
}

/** Requires more than `name`, `type` and `plugins`, which many unrelated files have. */
function looksLikeNetconf(value: unknown): boolean {
  if (Array.isArray(value)) return value.some(looksLikeNetconf);
  if (!isRecord(value)) return false;
  const { plugins } = value;
  const isList = Array.isArray(plugins) && plugins.some((entry) => isRecord(entry) && 'type' in entry);
  return isList || 'cniVersion' in value || 'ipam' in value || isNetplugEntry(value);
}

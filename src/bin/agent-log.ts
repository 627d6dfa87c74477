/** Of the agent and its network process, in one stream: to stderr, with no file. */
export const AGENT_LOG = {
  level: 'INFO',
  filePath: undefined,
  fileMaxSizeMb: 100,
  fileMaxAgeDays: 30,
  fileMaxCount: 10,
} as const;

/** Name of the file, in the state folder, with the token of the plugin's account that the agent renews. */
export const CNI_TOKEN_NAME = 'cni-token';

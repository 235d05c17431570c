// SPDX-License-Identifier: MIT
// A folder that was given in the place of a model.
#ifndef HEARTH_CLI_FOLDER_MODELS_H
#define HEARTH_CLI_FOLDER_MODELS_H

// Says what may have been meant: files in it, or what makes a file of it. Returns an exit status.
int hearth_cli_refuse_folder(const char *folder);

#endif

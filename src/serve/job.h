// SPDX-License-Identifier: MIT
// A job's tokens become pieces of text: probabilities, texts to stop at, the end.
#ifndef HEARTH_SERVE_JOB_H
#define HEARTH_SERVE_JOB_H

#include "serve/task.h"

// Chooses the next token from a row of logits, hands over what there is to tell, and appends the token to the
// job's. `room`: tokens that the job can have in all. The end if the job ends here, else HEARTH_END_NONE.
// Threads: the scheduler's.
enum hearth_end hearth_job_choose(struct hearth_job *job, const struct hearth_model *model,
                                  const float *logits, int room);
// Hands over the end, and before it the text that was held back. The job may be gone afterwards, with its
// task.
void hearth_job_end(struct hearth_job *job, enum hearth_end end, const char *message);

#endif

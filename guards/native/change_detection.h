/* How changes of dictionaries and classes are detected. */
#ifndef FRAMEJIT_CHANGE_DETECTION_H
#define FRAMEJIT_CHANGE_DETECTION_H
#include "object_compat.h"

/* By reading what is needed again, by the version tag (3.11), by the event of a watcher (3.12 and
 * later). */
typedef enum { BY_VALUE, BY_VERSION, BY_EVENT } fj_detection;

void fj_detection_init(void);

fj_detection fj_detection_for_dict(PyObject *dict, int of_instance);
int fj_detects_class_changes(void);

extern PyMethodDef fj_detection_methods[];

#endif

#ifndef VT_VERSION_H
#define VT_VERSION_H

#define VT_VERSION "0.1.0"

#endif

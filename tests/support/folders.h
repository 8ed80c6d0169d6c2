/* The folders of a folder of shared data, by name: tests that walk them find later ones by themselves. */
#ifndef VT_TESTS_FOLDERS_H
#define VT_TESTS_FOLDERS_H

/* Lists a folder below the shared data, once, before the suite is made: how many folders stand in it. 1 where it is
 * absent, so that a loop over them runs and can say what is missing. */
int vt_test_folders(const char *relative);
const char *vt_test_folder(int k); /* the k-th, "" where there is none */

/* "RELATIVE/FOLDER/FILE" of the k-th, without the last part for file "". The last 4 results stay valid. */
const char *vt_test_in_folder(int k, const char *file);

#endif

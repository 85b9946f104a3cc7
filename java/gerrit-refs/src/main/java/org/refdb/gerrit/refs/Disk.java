package org.refdb.gerrit.refs;

import com.google.inject.BindingAnnotation;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;

/** Qualifies Gerrit's own repository manager for local disks: the plain one, or the one for several base paths. */
@BindingAnnotation
@Retention(RetentionPolicy.RUNTIME)
@interface Disk {}

package com.gerritforge.gerrit.globalrefdb;

import com.google.gerrit.entities.Project;

/** One that also sets values without a comparison. */
public interface ExtendedGlobalRefDatabase extends GlobalRefDatabase {
  /** Sets a value. */
  <T> void put(Project.NameKey project, String refName, T newValue) throws GlobalRefDbSystemError;
}

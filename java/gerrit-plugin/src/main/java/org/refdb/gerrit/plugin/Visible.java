package org.refdb.gerrit.plugin;

import com.google.gerrit.entities.Project;
import com.google.gerrit.server.permissions.PermissionBackend;
import com.google.gerrit.server.permissions.ProjectPermission;
import com.google.gerrit.server.project.ProjectCache;
import com.google.inject.Inject;
import java.util.List;
import org.refdb.gerrit.refs.ProjectStat;

/**
 * Checks which projects are visible to the caller, because permission to see figures does not imply permission to see
 * every project.
 */
final class Visible {
  private final ProjectCache projects;
  private final PermissionBackend permissions;

  @Inject
  Visible(ProjectCache projects, PermissionBackend permissions) {
    this.projects = projects;
    this.permissions = permissions;
  }

  boolean has(Project.NameKey name) {
    return projects.get(name).isPresent()
        && permissions.currentUser().project(name).testOrFalse(ProjectPermission.ACCESS);
  }

  /** The figures of the visible projects. */
  List<ProjectStat> of(List<ProjectStat> stats) {
    return stats.stream().filter(stat -> has(Project.nameKey(stat.project()))).toList();
  }
}

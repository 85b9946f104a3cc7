package org.refdb.gerrit.global.disk;

import com.google.gerrit.entities.Project;
import com.google.gerrit.server.config.SitePaths;
import com.google.gerrit.server.git.GitRepositoryManager;
import com.google.gerrit.server.permissions.PermissionBackend;
import com.google.gerrit.server.permissions.ProjectPermission;
import com.google.gerrit.server.project.ProjectCache;
import com.google.inject.Inject;
import com.google.inject.Singleton;
import com.google.inject.name.Named;
import java.io.IOException;
import java.util.List;
import org.refdb.gerrit.global.etcd.GlobalRefException;

/** The projects of this Gerrit that are stored in the global ref database. */
@Singleton
public final class SiteProjects implements Disks {
  /** Gerrit's repositories below the wrapper, which would query etcd itself. */
  @Inject(optional = true)
  @Named("LocalDiskRepositoryManager")
  private GitRepositoryManager below;

  private final GitRepositoryManager repositories;
  private final StoredRefs stored;
  private final ProjectCache projects;
  private final PermissionBackend permissions;

  @Inject
  SiteProjects(
      GitRepositoryManager repositories,
      SitePaths paths,
      ProjectCache projects,
      PermissionBackend permissions)
      throws IOException {
    this.repositories = repositories;
    this.projects = projects;
    this.permissions = permissions;
    stored = StoredRefs.of(paths.etc_dir);
  }

  /** Returns whether the project exists and is visible to the caller. */
  public boolean hasVisible(String project) {
    Project.NameKey name = Project.nameKey(project);
    return projects.get(name).isPresent()
        && permissions.currentUser().project(name).testOrFalse(ProjectPermission.ACCESS);
  }

  @Override
  public List<String> all() {
    return repositories.list().stream().map(Project.NameKey::get).filter(stored::has).toList();
  }

  @Override
  public DiskRefs open(String project) throws IOException, GlobalRefException {
    if (!stored.has(project)) {
      throw new GlobalRefException("the settings leave project " + project + " out of the global ref database", null);
    }
    GitRepositoryManager from = below != null ? below : repositories;
    return new DiskRefs(project, from.openRepository(Project.nameKey(project)), stored);
  }
}

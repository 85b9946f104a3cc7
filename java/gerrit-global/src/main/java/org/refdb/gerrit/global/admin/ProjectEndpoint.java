package org.refdb.gerrit.global.admin;

import com.google.gerrit.extensions.restapi.ResourceConflictException;
import com.google.gerrit.extensions.restapi.Response;
import com.google.gerrit.extensions.restapi.RestApiException;
import com.google.gerrit.extensions.restapi.RestModifyView;
import com.google.gerrit.server.project.ProjectResource;
import java.io.IOException;
import org.refdb.gerrit.global.etcd.GlobalRefException;

/** REST adapter of an operation on one project: a failure of the global ref database is reported as 409 Conflict. */
abstract class ProjectEndpoint<I, O> implements RestModifyView<ProjectResource, I> {
  abstract O execute(String project, I input) throws RestApiException, IOException, GlobalRefException;

  @Override
  public final Response<O> apply(ProjectResource project, I input) throws RestApiException, IOException {
    try {
      return Response.ok(execute(project.getName(), input));
    } catch (GlobalRefException e) {
      throw new ResourceConflictException(e.getMessage(), e);
    }
  }
}
